"""`Ragged`: matrices of different sizes in one buffer."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import kinds as arrays
from ..arrays.kinds import View
from ..arrays.types import Array, Kind
from ..plan.problem import DTYPES, ITEMSIZE
from . import ragged_layout, stacks
from .ragged_layout import ALIGNMENT, Layout
from .recipes import realigned


class Ragged:
    """A batch of matrices that differ in size: one buffer, and for each matrix its rows, columns and offset.

    Parameters
    ----------
    buffer : one-dimensional array without gaps (NumPy, CuPy or PyTorch); it is not copied
    rows, columns : one integer per matrix, or one for all; NumPy arrays, sequences, or arrays on the buffer's GPU
    offsets : where the matrices begin, in elements; None: one after the other without gaps. A matrix that would end
        beyond the buffer raises ValueError

    Each matrix is stored row by row. Sizes given on the host are fixed. Sizes given on a GPU are read there by every
    call, without waiting for them; `r.shapes`, `r[i]` and a product without `out` need them on the host, copy them
    once, and fix them. Making a Ragged moves no data.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> r = ms.Ragged.from_list([np.ones((2, 3)), np.ones((1, 4))])
    >>> r.shapes
    [(2, 3), (1, 4)]
    >>> r[1]
    array([[1., 1., 1., 1.]])
    >>> ms.matmul(r, ms.Ragged.from_list([np.ones((3, 1)), np.ones((4, 2))])).to_list()
    [array([[3.],
           [3.]]), array([[4., 4.]])]
    """

    def __init__(
        self,
        buffer: Array,
        rows: Sequence[int] | Array,
        columns: Sequence[int] | Array,
        offsets: Sequence[int] | Array = None,
    ) -> None:
        kind = arrays.kind_of(buffer, "buffer")
        if kind.immutable:
            raise TypeError("buffer is a JAX array: pass a NumPy, CuPy or PyTorch array")
        layout = ragged_layout.of_sizes(rows, columns, offsets)
        self._begin(kind, buffer, layout)
        if layout.known:
            _check_inside(layout, len(buffer))

    def _begin(self, kind: Kind, buffer: Array, layout: Layout, view: View | None = None) -> None:
        self.buffer, self.layout, self._kind = buffer, layout, kind
        self._state = _state(kind, buffer)  # when it was described
        self._view = view or self._described("buffer")

    def _renew(self, argument: str) -> None:
        """Describe the buffer again, for a call with this batch as an argument: since it was described it may have been
        resized or replaced, or may require a gradient."""
        if is_as_described(self):
            return
        before, name = self._view, f"{argument}.buffer"
        kind = arrays.kind_of(self.buffer, name)
        if kind is not self._kind:
            raise TypeError(f"{name} was a {self._kind.name} array and is a {kind.name} array: make another Ragged")
        self._view, self._state = self._described(name), _state(kind, self.buffer)
        if self.layout.known and self._view.shape != before.shape:
            _check_inside(self.layout, len(self.buffer))

    def _described(self, name: str) -> View:
        view: View = self._kind.view(self.buffer, name)
        if len(view.shape) != 1 or (view.shape[0] > 1 and view.strides != (1,)):
            raise ValueError(f"{name} has shape {view.shape} and strides {view.strides}: one run of elements is needed")
        if view.dtype not in DTYPES:
            raise TypeError(f"{name} has dtype {view.dtype}; supported are {', '.join(DTYPES)}: convert it first")
        if view.conjugated:
            raise ValueError(f"{name} is a lazily conjugated tensor: pass {name}.resolve_conj()")
        if view.address % ITEMSIZE[view.dtype]:
            raise ValueError(
                f"{name} begins between multiples of its {ITEMSIZE[view.dtype]} bytes per element: copy it"
            )
        return view

    @classmethod
    def _of(cls, kind: Kind, buffer: Array, layout: Layout, view: View | None = None) -> Ragged:
        """Make a batch without checks of the sizes; `view` describes the buffer where that is known."""
        made = cls.__new__(cls)
        made._begin(kind, buffer, layout, view)
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.buffer, self.layout)

    @classmethod
    def from_list(cls, matrices: Sequence[Array]) -> Ragged:
        """Copy matrices of one dtype, library and device into a new buffer; each begins at a multiple of 32 bytes."""
        if not len(matrices):
            raise ValueError("an empty list says nothing about the dtype: use Ragged.empty([], [], dtype)")
        kind = stacks.kind_of(list(matrices), "matrices")
        if kind.immutable:
            raise TypeError("matrices are JAX arrays: pass NumPy, CuPy or PyTorch arrays")
        views = stacks.described(kind, list(matrices), "matrices")
        for i, view in enumerate(views):
            if len(view.shape) != 2:
                raise ValueError(f"matrices[{i}] has shape {view.shape}: a matrix (two dimensions) is needed")
            if view.dtype != views[0].dtype:
                raise TypeError(f"matrices[0] has dtype {views[0].dtype} and matrices[{i}] {view.dtype}: convert one")
        arrays.same_device([(f"matrices[{i}]", view) for i, view in enumerate(views)])
        sizes = np.array([view.shape for view in views], np.int64)
        made = _fresh(kind, sizes[:, 0], sizes[:, 1], views[0].dtype, matrices[0])
        for place, matrix in zip(made, matrices, strict=True):
            place[...] = matrix
        return made

    @classmethod
    def empty(
        cls, rows: Sequence[int] | Array, columns: Sequence[int] | Array, dtype: str = "float64", like: Array = None
    ) -> Ragged:
        """Allocate matrices of these sizes, uninitialised: with library, device and dtype of `like`, else in NumPy."""
        like = np.empty(0, dtype) if like is None else like
        kind = arrays.kind_of(like, "like")
        if kind.immutable:
            raise TypeError("like is a JAX array: pass a NumPy, CuPy or PyTorch array")
        layout = ragged_layout.of_sizes(rows, columns, None)
        return _fresh(kind, *layout.host()[:2], kind.view(like, "like").dtype, like)

    @classmethod
    def zeros(
        cls, rows: Sequence[int] | Array, columns: Sequence[int] | Array, dtype: str = "float64", like: Array = None
    ) -> Ragged:
        """Allocate matrices of these sizes, filled with zeros; arguments as for `empty`."""
        made = cls.empty(rows, columns, dtype, like)
        made.buffer[...] = 0
        return made

    @classmethod
    def empty_like(cls, other: Ragged) -> Ragged:
        """Allocate a buffer for matrices of the same sizes at the same offsets."""
        buffer = other._kind.empty((1, len(other.buffer)), other._view.dtype, other.buffer).reshape(-1)
        return cls._of(other._kind, buffer, other.layout)

    @property
    def dtype(self) -> Any:
        """dtype of the elements, as the array library names it."""
        return self.buffer.dtype

    @property
    def device(self) -> str:
        """`cpu`, or `cuda:` and a number."""
        where, ordinal = self._view.device
        return where if where == "cpu" else f"{where}:{ordinal}"

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Rows and columns of every matrix."""
        return list(self.layout.pieces()[0])

    def __len__(self) -> int:
        return self.layout.count

    def __getitem__(self, index: int | slice | Array) -> Array:
        """One matrix, or a Ragged of some: views, nothing is copied."""
        if isinstance(index, slice):
            return Ragged._of(self._kind, self.buffer, self.layout.part(index))
        at = range(len(self))[index]
        rows, columns, offset = (int(table[at]) for table in self.layout.host())
        return self.buffer[offset : offset + rows * columns].reshape(rows, columns)

    def __iter__(self) -> Iterator[Array]:
        for shape, place in zip(*self.layout.pieces(), strict=True):
            yield self.buffer[place].reshape(shape)

    def to_list(self) -> list[Array]:
        """The matrices, as views of the buffer."""
        shapes, places = self.layout.pieces()
        return list(map(type(self.buffer).reshape, map(self.buffer.__getitem__, places), shapes))

    def __repr__(self) -> str:
        noun = "matrix" if len(self) == 1 else "matrices"
        sizes = "sizes on the device"
        if self.layout.known:
            rows, columns, _ = self.layout.host()
            sizes = f"{_span(rows)} x {_span(columns)}" if len(self) else "no sizes"
        return f"Ragged({len(self)} {noun}, {sizes}, {self._view.dtype}, {self.device})"


def _restored(buffer: Array, layout: Layout) -> Ragged:
    """A batch as it was pickled."""
    return Ragged._of(arrays.kind_of(buffer, "buffer"), realigned(buffer), layout)


def _span(sizes: Array) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return str(low) if low == high else f"{low}..{high}"


def _fresh(kind: Kind, rows: Sequence[int] | Array, columns: Sequence[int] | Array, dtype: str, like: Array) -> Ragged:
    """A new buffer; every matrix begins at a multiple of 32 bytes."""
    layout, total = ragged_layout.packed(rows, columns, ALIGNMENT // ITEMSIZE[dtype])
    return allocate(kind, layout, total, dtype, like)


def allocate(kind: Kind, layout: Layout, elements: int, dtype: str, like: Array) -> Ragged:
    """A buffer of so many elements for a layout."""
    return Ragged._of(kind, kind.empty((1, elements), dtype, like).reshape(-1), layout)


def allocate_beside(other: Ragged, layout: Layout, elements: int) -> Ragged:
    """A buffer of so many elements for a layout, of the dtype and on the device of another batch."""
    kind, (_, _, _, dtype, device, *_) = other._kind, other._view
    buffer = kind.empty((1, elements), dtype, other.buffer).reshape(-1)
    return Ragged._of(kind, buffer, layout, View(kind.address(buffer), (elements,), (1,), dtype, device, False))


def is_as_described(batch: Ragged) -> bool:
    """Whether the buffer is certainly the one that was described; only NumPy's can tell."""
    state = batch._state
    return state is not None and _state(batch._kind, batch.buffer) == state


def _state(kind: Kind, buffer: Array) -> Hashable:
    """Signature and address of a NumPy buffer, which cost a tenth of describing it and tell whether it is the one that
    was described; None for other libraries, whose arrays can change in more ways, and for subclasses."""
    if not kind.on_host_alone or arrays.known_kind(buffer) is not kind:
        return None
    return kind.signature(buffer), kind.address(buffer)


def _check_inside(layout: Layout, elements: int) -> None:
    rows, columns, offsets = layout.host()
    beyond = (rows * columns > 0) & (offsets + rows * columns > elements)
    if beyond.any():
        i = int(np.argmax(beyond))
        last = int(offsets[i] + rows[i] * columns[i])
        raise ValueError(f"matrix {i} ends at element {last}, and the buffer has {elements}")
