"""`ms.sparse.matrix`: a sparse matrix in a format that products with vectors run well in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...arrays.kinds import kind_of, known_kind
from ...arrays.types import Array, SparseMatrix
from ...backends.select import select
from ...codegen.geometry import Device
from ...errors import Transformed
from ...kernels.sparse.spmv import spec
from ...plan.plan import Plan
from ...plan.problem import DTYPES
from ...records import findings
from .. import graphs
from ..launcher import LAUNCHER
from ..recipes import repeatable
from ..transformable import through_framework
from . import convert, spmv_call
from .convert import Source, Wish
from .operand import Held, Storage
from .operator import Operator
from .spmv_call import Form
from .storage import Csr, Sell

_FORMATS = ("csr", "ell", "sell")
_INDICES = ("int32", "int64", "delta16")


def matrix(
    A: SparseMatrix,
    format: str | None = None,
    C: int | None = None,
    sigma: int | None = None,
    threads: int | None = None,
    index: str | None = None,
    values: str | None = None,
    *,
    backend: str | None = None,
) -> Matrix:
    """Store a sparse matrix for fast products: `A @ x` for vectors (n,) and blocks of vectors (n, k).

    Columns of a row are sorted, and duplicates summed.

    Parameters
    ----------
    A : sparse matrix of SciPy (any format), CuPy, or PyTorch (CSR, COO); copied on the device where it is. A dense
        array raises TypeError, and indices beyond the shape ValueError
    format : `csr`: rows one after the other; `ell`: rows padded to one length; `sell`: chunks of C rows padded to the
        longest of the chunk. None takes `sell` where little is padded
    C : rows of a chunk in `sell`; on GPUs 32 / threads, on CPUs what eight vectors hold, 32 at most, unless given
    sigma : rows are sorted by length inside windows of sigma rows before they are divided into chunks
    threads : lanes of a GPU that share a row
    index : how columns are stored: int32, int64, or in `sell` delta16 (16-bit distances from a base); None takes the
        shortest that can hold them
    values : dtype of the stored values, which may be narrower than the matrix: float32 of a float64 one
    backend : as for `ms.matmul`

    Cost: making it sorts the entries of A and copies them. A product takes 2 nnz flops, 8 nnz for complex numbers, and
    moves nnz values and column indices, x and the result once.

    >>> import numpy as np, scipy.sparse, mansard as ms
    >>> A = ms.sparse.matrix(scipy.sparse.diags_array([1.0, 2.0, 3.0]))
    >>> A @ np.ones(3)
    array([1., 2., 3.])
    >>> A.format, A.shape, A.nnz
    ('sell', (3, 3), 3)
    """
    return of_source(convert.read(A), format, C, sigma, threads, index, values, backend=backend)


def of_source(
    source: Source, format: str | None = None, C: int | None = None, sigma: int | None = None,
    threads: int | None = None, index: str | None = None, values: str | None = None, *, backend: str | None = None,
) -> Matrix:  # fmt: skip
    """Like `matrix`, for a matrix that was read before."""
    device = select(source.device, backend).device
    if (format, C, sigma, threads, index) == (None,) * 5:
        wish, lanes = _tuned_wish(source, device, values)
    else:
        wish, lanes = _wish(source, device, format, C, sigma, threads, index, values)
    return Matrix(_Sides(source.rows.shape, source.rows.values_dtype, wish, lanes, backend, source), False, False)


def _tuned_wish(source: Source, device: Device, values: str | None) -> tuple[Wish, int | None]:
    """What `ms.sparse.tune` found for the matrix; static rules where it found nothing, or what no longer serves."""
    found = findings.recall(device, source.rows, "format") or {}
    format, C, sigma, threads, index = map(found.get, ("format", "C", "sigma", "threads", "index"))
    try:
        return _wish(source, device, format, C, sigma, threads, index, values)
    except ValueError:
        return _wish(source, device, None, None, None, None, None, values)


def _wish(
    source: Source, device: Device, format: str | None, C: int | None, sigma: int | None, threads: int | None,
    index: str | None, values: str | None,
) -> tuple[Wish, int | None]:  # fmt: skip
    """Validated options of `ms.sparse.matrix`."""
    if format is not None and format not in _FORMATS:
        raise ValueError(f"format={format!r} is not one of {', '.join(map(repr, _FORMATS))}")
    if index is not None and index not in _INDICES:
        raise ValueError(f"index={index!r} is not one of {', '.join(map(repr, _INDICES))}")
    if index == "delta16" and format in ("csr", "ell"):
        raise ValueError(f"index='delta16' needs the chunks of format='sell', not {format!r}")
    if index == "int32" and source.rows.shape[1] > 1 << 31:
        raise ValueError(f"index='int32' does not reach {source.rows.shape[1]} columns: use 'int64'")
    for name, number in (("C", C), ("threads", threads)):
        if number is not None and number not in spec.C_SIZES:
            raise ValueError(f"{name}={number} is not one of {', '.join(map(str, spec.C_SIZES))}")
    if sigma is not None and sigma < 1:
        raise ValueError(f"sigma={sigma}: a window has at least one row")
    if C is not None and threads is not None and C * threads != 32 and format == "sell":
        raise ValueError(f"C={C} and threads={threads}: chunks of C rows with `threads` lanes each fill a warp of 32")
    if values is not None and (values not in DTYPES or not spec.narrows(values, source.rows.values_dtype)):
        raise ValueError(f"values={values!r} is no dtype as narrow as the matrix's {source.rows.values_dtype}")
    if values is not None and values.startswith("complex") != source.rows.values_dtype.startswith("complex"):
        raise ValueError(f"values={values!r} would drop the imaginary parts of {source.rows.values_dtype}")
    usual = convert.chunk_rows(source.rows.values_dtype, device)
    C = C or (32 // threads if threads else usual)
    return Wish(_chunked(format, index), C, sigma, index, values, usual), threads


def _chunked(format: str | None, index: str | None) -> str | None:
    return "sell" if index == "delta16" else format


class _Sides:
    """A matrix and its transposed, each stored when it is first needed."""

    def __init__(
        self, shape: tuple[int, int], dtype: str, wish: Wish, threads: int | None, backend: str | None, source: Source
    ) -> None:
        self.shape, self.dtype, self.wish, self.threads, self.backend = shape, dtype, wish, threads, backend
        self.xp, self.device = source.xp, source.device
        self._held: dict[bool, Held] = {False: self._hold(source, wish)}

    def __reduce__(self) -> tuple[object, ...]:
        return _sides, (self.shape, self.dtype, self.wish, self.threads, self.backend, self._held)

    def _hold(self, source: Source, wish: Wish) -> Held:
        stored = convert.store(source, wish)
        return Held(stored, self.xp, self.device, convert.is_skewed(source.rows, self.xp), self.threads)

    def held(self, transposed: bool) -> Held:
        if transposed not in self._held:
            rows = convert.transposed(self._held[False].rows(), self.xp)
            # its rows are others: padding and reach that suited the matrix may not suit them
            wide, csr = self.wish.index == "int64", self.wish.format == "csr"
            wish = replace(self.wish, format="csr" if csr else None, sigma=None, index="int64" if wide else None)
            self._held[True] = self._hold(Source(rows, self.xp, self.device), wish)
        return self._held[transposed]

    def with_data(self, data: Array) -> _Sides:
        """The same pattern with entries of any dtype, of which narrower ones are stored if that was wished."""
        if str(data.dtype) == self.dtype:
            return self.with_values(data)
        rows = self._held[False].rows()
        source = Source(Csr(rows.shape, rows.indptr, rows.indices, data), self.xp, self.device)
        wish = replace(self.wish, values=None)
        return _Sides(self.shape, str(data.dtype), wish, self.threads, self.backend, source)

    def with_values(self, data: Array) -> _Sides:
        """The same pattern; the transposed is stored anew when it is needed."""
        new = object.__new__(_Sides)
        new.__dict__.update(self.__dict__)
        new._held = {False: self._held[False].with_values(data)}
        return new


def _sides(
    shape: tuple[int, int], dtype: str, wish: Wish, threads: int | None, backend: str | None, held: dict[bool, Held]
) -> _Sides:
    """A matrix and its transposed, as they were pickled."""
    made = object.__new__(_Sides)
    made.shape, made.dtype, made.wish, made.threads, made.backend = shape, dtype, wish, threads, backend
    made._held, made.xp, made.device = held, held[False].xp, held[False].device
    return made


_BINDING = frozenset(2**i for i in range(1, 20))  # products by Python after which a native path is tried (again)


class Matrix(Operator):
    """What `matrix` returns: a scipy.sparse.linalg.LinearOperator; it does not change. `T` and `H` are the transposed
    and its conjugate, which are stored on their own when a product first needs them. It pickles as it is stored, with
    its transposed if that is."""

    def __init__(self, sides: _Sides, transposed: bool, conj: bool) -> None:
        self._sides, self._transposed, self._conj = sides, transposed, conj
        rows, cols = sides.shape
        # from SciPy 1.18 on operators have attributes that only its constructor sets (ndim, the array namespace)
        super().__init__(np.dtype(sides.dtype), (cols, rows) if transposed else (rows, cols))

        self._bound: object = None  # the native path of products with vectors like an earlier one
        self._calls = 0  # products by Python

    def __reduce__(self) -> tuple[object, ...]:
        return Matrix, (self._sides, self._transposed, self._conj)

    def __eq__(self, other: object) -> bool:  # PyTorch's compiler takes no constants without an `__eq__` of their own
        return self is other

    __hash__ = object.__hash__

    @property
    def nnz(self) -> int:
        return self._sides.held(False).storage.nnz

    @property
    def storage(self) -> Storage:
        """The arrays; see `mansard.operations.sparse.storage`."""
        return self.held.storage

    @property
    def format(self) -> str:
        return str(self.held.traits["format"])

    @property
    def index(self) -> str:
        return self.storage.index

    @property
    def device(self) -> tuple[str, int]:
        return self._sides.device

    @property
    def backend(self) -> str | None:
        """The backend that was asked for; None: by where the arrays live."""
        return self._sides.backend

    @property
    def T(self) -> Matrix:
        return Matrix(self._sides, not self._transposed, self._conj)

    @property
    def H(self) -> Matrix:
        return Matrix(self._sides, not self._transposed, not self._conj)

    def __matmul__(self, x: Array) -> Array:
        bound = self._bound
        if bound is not None:
            product = LAUNCHER.module.again(bound, x)  # type: ignore[union-attr]
            if product is not None:
                return product
        try:
            kind = known_kind(x)
            if kind is None:
                return self.times(x)
            self._calls += 1
            if self._calls in _BINDING:
                self._bound = spmv_call.bind(kind, self.held, x, self._sides.backend, self._form()) or bound
            return spmv_call.apply(kind, self.held, x, backend=self._sides.backend, form=self._form())
        except Transformed as refusal:
            return through_framework("sparse.Matrix.__matmul__", Matrix.__matmul__, (self, x), refusal)

    def product(self, x: Array, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
        """alpha A x + beta out for a vector (n,) or vectors side by side (n, k); `out` is written if given."""
        try:
            kind, form = kind_of(x, "x"), self._form()
            return spmv_call.apply(kind, self.held, x, out, alpha, beta, backend=self._sides.backend, form=form)
        except Transformed as refusal:
            given = (self, x, out, alpha, beta)
            return through_framework("sparse.Matrix.product", Matrix.product, given, refusal)

    def recurrence(
        self,
        x: Array,
        z: Array = None,
        out: Array = None,
        alpha: complex = 1.0,
        beta: complex = 0.0,
        gamma: complex = 0.0,
    ) -> Array:
        """alpha A x + beta x + gamma z in one pass: a step of a three-term recurrence. `out` may be z itself."""
        form = self._form()._replace(recurrence=True)
        try:
            kind = kind_of(x, "x")
            return spmv_call.apply(kind, self.held, x, out, alpha, beta, z, gamma, self._sides.backend, form)
        except Transformed as refusal:
            given = (self, x, z, out, alpha, beta, gamma)
            return through_framework("sparse.Matrix.recurrence", Matrix.recurrence, given, refusal)

    def plan(self, x: Array, out: Array = None) -> Plan:
        """A held product: `plan(x)` runs, `.explain()` says what and why. It pickles with the matrix."""
        made = spmv_call.plan_product(self.held, x, out, None, self._sides.backend, self._form())
        return repeatable(made, self.plan, {"x": x, "out": out})

    def _launcher(self, x: Array, out: Array) -> Callable[[int, int, int], None] | None:
        """A function of addresses (x, out) and a stream that launches the product alone, for solvers; None where a
        product is more than that."""
        return spmv_call.launcher(kind_of(x, "x"), self.held, x, out, self.backend, self._form())

    def explain(self, columns: int = 1) -> str:
        """How the matrix is stored, which kernel multiplies it with so many vectors, and what limits it."""
        xp = self._sides.xp
        like = xp.empty((self.shape[1], columns) if columns != 1 else self.shape[1], self.dtype)
        return f"{self!r}\n{self.plan(like).explain()}"

    def with_values(self, data: Array) -> Matrix:
        """The same pattern with other values, in the order of `to_scipy().data`."""
        if self._transposed or self._conj:
            raise ValueError("with_values: replace the values of the matrix itself, not of its transposed")
        try:
            data = convert.new_values(data, self._sides.xp, self.device)
        except Transformed as refusal:
            answer: Matrix = through_framework("sparse.Matrix.with_values", Matrix.with_values, (self, data), refusal)
            return answer
        if data.shape != (self.nnz,):
            raise ValueError(f"data has shape {data.shape}, the pattern {self.nnz} entries")
        if not np.can_cast(str(data.dtype), self.dtype, "same_kind"):
            raise TypeError(f"data has dtype {data.dtype} and A {self.dtype}: convert it first")
        return Matrix(self._sides.with_values(data), False, False)

    def _scaled(self, factor: complex) -> Matrix:
        """The matrix with every entry multiplied by a number; NumPy's rules give the dtype."""
        factor = np.conj(factor) if self._conj else factor
        scaled = self._sides.held(False).rows().data.astype(self.dtype, copy=False) * factor
        return Matrix(self._sides.with_data(scaled), self._transposed, self._conj)

    def _stored_like(self, A: SparseMatrix) -> Matrix:
        """A matrix of SciPy or CuPy, stored as suits it, with this one's backend."""
        return matrix(A, backend=self._sides.backend)

    def tocsr(self) -> SparseMatrix:
        """As CSR where the matrix lives: a csr_array of scipy.sparse, or cupyx's csr_matrix."""
        return self.to_scipy() if self._sides.xp is np else self.to_cupy()

    def to_scipy(self) -> SparseMatrix:
        """As scipy.sparse.csr_array, in this matrix's dtype."""
        from scipy.sparse import csr_array

        rows = self._rows()
        parts = (rows.data, rows.indices, rows.indptr)
        return csr_array(tuple(np.array(p if self._sides.xp is np else p.get()) for p in parts), shape=rows.shape)

    def to_cupy(self) -> SparseMatrix:
        """As cupyx.scipy.sparse.csr_matrix."""
        import cupy
        from cupyx.scipy.sparse import csr_matrix

        rows = self._rows()
        return csr_matrix(tuple(cupy.array(p) for p in (rows.data, rows.indices, rows.indptr)), shape=rows.shape)

    def _rows(self) -> Csr:
        rows = self.held.rows()
        data = rows.data.conj() if self._conj else rows.data
        return Csr(rows.shape, rows.indptr, rows.indices, data.astype(self.dtype, copy=False))

    @property
    def held(self) -> Held:
        """As kernels take it."""
        return self._sides.held(self._transposed)

    def _form(self) -> Form:
        return Form(self._conj)

    def __repr__(self) -> str:
        rows, cols = self.shape
        stored = self.storage
        text = f"{rows} x {cols} {self.dtype} with {self.nnz} entries, {self.format}"
        if isinstance(stored, Sell):
            padding = int(stored.widths.sum()) * stored.C / max(1, stored.nnz)
            text += f"-{stored.C}-{stored.sigma}, {padding:.3g} stored entries per entry"
        return f"<Matrix {text}, {stored.index} columns, {stored.values_dtype} values>"


for _method in (Matrix.product, Matrix.recurrence, Matrix.matvec, Matrix.matmat, Matrix.dot):
    graphs.allow_method(Matrix, _method)
