"""Names for what operations are given: arrays, batches of matrices, and the kind of an array library."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeAlias

from .view import View

# An array of NumPy, CuPy, PyTorch or JAX, or None where an argument may be left out. The four share no base class, and
# no protocol that all of their type stubs satisfy; what they do share is asked of their `Kind`.
Array: TypeAlias = Any

# An array of matrices (..., rows, columns), a list of arrays, or a container (Ragged, Interleaved): operations tell
# them apart when they are called.
Matrices: TypeAlias = Any

# A sparse matrix of SciPy, CuPy or PyTorch, or one of Mansard's own: whatever has rows one after the other, or can be
# brought to that form.
SparseMatrix: TypeAlias = Any


class Kind(Protocol):
    """An array library, as operations see it. `unwrap` and `wrap` are there if its arrays are `immutable`, and of the
    others then only `view`, which refuses."""

    @property
    def name(self) -> str:
        """The library's name in messages."""

    @property
    def immutable(self) -> bool:
        """Whether arrays cannot be written to: results are new arrays."""

    @property
    def written(self) -> Callable[[tuple[Array, ...]], None] | None:
        """Tells the library that arrays were overwritten; None if it need not know."""

    @property
    def signature(self) -> Callable[[Array], tuple[Hashable, ...]]:
        """Cheap, and different whenever planning could differ."""

    def view(self, array: Array, argument: str, /) -> View:
        """Describe an array; what no kernel could read as it is raises an error that names the argument."""

    def address(self, array: Array, /) -> int:
        """Where the first entry is."""

    def empty(self, shape: tuple[int, ...], dtype: str, like: Array, /) -> Array:
        """A new array beside `like`, without gaps."""

    def plain(self, array: Array, /) -> Array:
        """A contiguous array that holds its values literally."""

    def stream_of(self, device: tuple[str, int], /) -> Callable[[], int]:
        """A function that names the caller's current stream on the device."""

    def matmul(self, a: Array, b: Array, out: Array = None) -> Array:
        """The library's own product."""

    def conj(self, array: Array, /) -> Array:
        """The conjugate, which may be a view."""

    def unwrap(self, array: Array, argument: str, /) -> Array:
        """A NumPy or CuPy view of an immutable array."""

    def wrap(self, array: Array, /) -> Array:
        """A NumPy or CuPy array as an immutable one."""
