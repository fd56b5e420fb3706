"""Names for what operations are given: arrays, batches of matrices, and the kind of an array library."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol, TypeAlias

from .gemm import Gemm, Product
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


class Call(NamedTuple):
    """A call of an operation, for operands that answer it themselves: matrices spread over processes or chunks."""

    name: str  # the operation's
    given: dict[str, Matrices]  # operands by name, `out` among them if it was given
    options: dict[str, Any]
    run: Callable[..., Any]  # the operation itself: run(given, options) on other operands


class Maker(NamedTuple):
    """How a library allocates one shape and dtype: function([like], *given), the last of `given` by their names."""

    function: Callable[..., Array]
    given: tuple[Any, ...]
    names: tuple[str, ...] | None = None
    takes_like: bool = False


class StreamSource(NamedTuple):
    """Where the caller's current stream on a GPU is found: by DLPack, or as what a function returns."""

    function: Callable[[], Any]
    by_dlpack: bool = False
    ordinal: int = 0
    has_attribute: bool = False  # the handle is the attribute `ptr` of what the function returns


class Linalg(Protocol):
    """An array library's factorizations of stacks (..., m, n) on a GPU; pivots count from zero. They do not wait for
    the device."""

    def cholesky(self, A: Array, upper: bool, /) -> tuple[Array, Array]:
        """The factor and `info`."""

    def lu(self, A: Array, pivot: bool, /) -> tuple[Array, Array, Array]:
        """Factors, pivots and `info`."""

    def lu_solve(self, F: Array, pivots: Array, B: Array, /) -> Array:
        """The solution of A X = B by the factors of A."""

    def solve(self, A: Array, B: Array, pivot: bool, /) -> tuple[Array, Array]:
        """The solution of A X = B, and `info`."""

    def inverse(self, A: Array, pivot: bool, /) -> tuple[Array, Array]:
        """The inverse, and `info`."""

    def solve_positive(self, A: Array, B: Array, /) -> tuple[Array, Array]:
        """The solution of A X = B by Cholesky, from the lower triangle of A, and `info`."""

    def solve_triangular(self, A: Array, B: Array, lower: bool) -> Array:
        """The solution of A X = B, A a triangle whose other side is zero."""

    def geqrf(self, A: Array, /) -> tuple[Array, Array]:
        """R above the reflectors, and the reflectors' factors."""

    def qr(self, A: Array, mode: str, /) -> tuple[Array, Array]:
        """Q (None with mode `r`) and R; the other modes are `reduced` and `complete`."""


class Kind(Protocol):
    """An array library, as operations see it. If its arrays are `immutable`, it only has `name`, `view`, which refuses,
    `answer`, `unwrap`, `wrap` and `promoted`."""

    # ---- facts --------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The library's name in messages."""

    @property
    def package(self) -> str:
        """The name it is imported by."""

    @property
    def module(self) -> ModuleType:
        """The library itself, for functions that all libraries have under one name."""

    @property
    def immutable(self) -> bool:
        """Whether arrays cannot be written to: results are new arrays."""

    @property
    def answer(self) -> Callable[[Call], Any] | None:
        """Answers calls with operands that are spread over processes or chunks; None for arrays in one memory."""

    @property
    def promotes(self) -> bool:
        """Whether linear algebra converts integers, and dtypes that differ, to a common floating-point dtype."""

    @property
    def batches_matmul(self) -> bool:
        """Whether the product of two stacks is one call of BLAS, not one per matrix."""

    @property
    def prefers_blas(self) -> bool:
        """Whether `gemm` costs less to call than `matmul`."""

    @property
    def cublas_dtypes(self) -> tuple[str, ...]:
        """Dtypes whose products on a GPU are cuBLAS's own: no setting of the library makes them less exact."""

    def load_cublas(self) -> None:
        """Have the library load cuBLAS, which some do with the first product."""

    @property
    def has_numpy_methods(self) -> bool:
        """Whether arrays have the methods and dtypes of NumPy's."""

    @property
    def most_eigenproblems(self) -> int:
        """Matrices per call that the library's `eigh` takes on a GPU: its routine fails above."""

    @property
    def on_host_alone(self) -> bool:
        """Whether dtype, shape, strides and address say all of an array: there are neither devices nor gradients."""

    @property
    def written(self) -> Callable[[tuple[Array, ...]], None] | None:
        """Tells the library that arrays were overwritten; None if it need not know."""

    @property
    def signature(self) -> Callable[[Array], tuple[Hashable, ...]]:
        """Cheap, and different whenever planning could differ."""

    # ---- memory -------------------------------------------------------------------------------------------

    def view(self, array: Array, argument: str, /) -> View:
        """Describe an array; what no kernel could read as it is raises an error that names the argument."""

    def address(self, array: Array, /) -> int:
        """Where the first entry is."""

    def stream_of(self, device: tuple[str, int], /) -> Callable[[], int]:
        """A function that names the caller's current stream on the device."""

    def empty(self, shape: tuple[int, ...], dtype: str, like: Array, /) -> Array:
        """Allocate a contiguous array on the device of `like`, which has this dtype."""

    def allocate(self, shape: tuple[int, ...], dtype: str, like: Array, /) -> Array:
        """Allocate a contiguous array of any dtype on the device of `like`."""

    def allocator(self, shape: tuple[int, ...], dtype: str, of_operand: str, /) -> Callable[[Array], Array]:
        """`allocate` for one shape and dtype, beside operands of the dtype `of_operand`: the fastest way there is."""

    def maker(self, shape: tuple[int, ...], dtype: str, of_operand: str, /) -> Maker:
        """`allocator` as data, for the native launcher."""

    def stream_source(self, device: tuple[str, int], /) -> StreamSource | None:
        """`stream_of` as data, for the native launcher; None on a CPU."""

    def plain(self, array: Array, /) -> Array:
        """A contiguous array that holds its values literally."""

    def upload(self, array: Array, like: Array, /) -> Array:
        """A contiguous NumPy array as an array of the library on the device of `like`; on CPUs it shares memory."""

    def download(self, array: Array, /) -> Array:
        """An array as a NumPy array, after waiting for the device; on CPUs it shares memory where it can."""

    def promoted(self, array: Array, dtype: str, /) -> Array:
        """The array in the dtype of its product with entries of `dtype`, by the library's rules; JAX's alone."""

    def unwrap(self, array: Array, argument: str, /) -> Array:
        """A NumPy or CuPy view of an array."""

    def wrap(self, array: Array, /) -> Array:
        """A NumPy or CuPy array as an array of the library, sharing memory."""

    def memory(self, size: int, device: tuple[str, int], /) -> Array:
        """Allocate bytes on a device."""

    def over(self, memory: Array, offset: int, view: View, /) -> Array:
        """An array in `memory`, `offset` bytes from its beginning, as `view` describes it but for the address."""

    # ---- functions that have another name in each library --------------------------------------------------

    def conj(self, array: Array, /) -> Array:
        """The conjugate, which may be a view."""

    def arange(self, count: int, like: Array, /) -> Array:
        """Indices 0 .. count-1 on the device of `like`."""

    def astype(self, array: Array, dtype: Any, /) -> Array:
        """Convert to a dtype, given by its name or as the library's own; the array itself if it has it."""

    def diagonals(self, array: Array, /) -> Array:
        """The diagonals of a stack as a view that can be written to. Index arrays would have to be sent to a GPU, and
        some libraries wait for that."""

    def triangle(self, array: Array, lower: bool, /) -> Array:
        """A copy with zeros on the other side of the diagonal, whatever stood there."""

    def put_triangle(self, array: Array, values: Array, lower: bool, /) -> None:
        """Write one triangle of `values`, with the diagonal, to that of `array`; the other one is left alone."""

    def mirror(self, array: Array, lower: bool, conjugated: bool, /) -> None:
        """Overwrite one triangle by the transpose, or the adjoint, of the `lower` or upper one."""

    def take_along(self, array: Array, index: Array, axis: int, /) -> Array:
        """Entries by index arrays along an axis; other dimensions broadcast."""

    def put_along(self, array: Array, index: Array, values: Array, axis: int, /) -> None:
        """Write `values` to the entries that index arrays name along an axis."""

    # ---- the library's own routines -------------------------------------------------------------------------

    def matmul(self, a: Array, b: Array, out: Array = None) -> Array:
        """The library's own product."""

    def check_matmul(self, dtypes: dict[str, str], /) -> None:
        """Refuse operands, by name and dtype, that `matmul` does not multiply."""

    def gemm(self, views: Sequence[View], layouts: Sequence[tuple[str, int]], /) -> Product | None:
        """C = alpha A B + beta C for matrices A, B, C that lie like these; None where there is no such routine."""

    def strided_gemm(self, gemm: Gemm, /) -> Product | None:
        """C_i = alpha A_i B_i + beta C_i for stacks on a GPU; None where there is no such routine."""

    @property
    def spmv(self) -> Callable[[SparseMatrix, Array, Array], Array] | None:
        """Product of the library's sparse matrix with a vector, in the place of the third argument."""

    @property
    def linalg(self) -> Linalg:
        """Factorizations of arrays on GPUs; LAPACK answers for those of CPUs."""
