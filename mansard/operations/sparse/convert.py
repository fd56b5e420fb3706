"""From other libraries' sparse matrices to rows one after the other, and which format serves them.

The only file of the package that knows libraries of sparse matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.types import Array, SparseMatrix
from ...codegen.geometry import Device
from ...errors import UnsupportedProblem
from ...plan.problem import DTYPES, ITEMSIZE
from . import chunked, storage
from .storage import Csr, Ell, Sell

_PADDING = 1.15  # stored entries per entry, up to which chunks pay
_WINDOWS = (256, 4096)  # rows that are sorted by length, where rows as they are would be padded more
_SHORT, _EVEN = 12, 1.02  # entries of rows for ELLPACK, and stored entries per entry
_SKEW = 32.0  # times the mean length, from which the longest row keeps a few lanes busy while all others wait
_CACHED_ENTRIES = 4 << 20  # of a matrix that the caches of a CPU may hold
_WORTH = 8  # rows of a chunk, from which 16-bit columns and their bases are shorter than 32-bit ones


@dataclass(frozen=True)
class Source:
    """A matrix as CSR with sorted rows, its array module, and where its arrays are."""

    rows: Csr
    xp: ModuleType
    device: tuple[str, int]

    def __reduce__(self) -> tuple[object, ...]:
        return _source, (self.rows,)


def _source(rows: Csr) -> Source:
    """A matrix as it was pickled, where its arrays are now."""
    return Source(rows, *place_of(rows.data))


def place_of(array: Array) -> tuple[ModuleType, tuple[str, int]]:
    """The module, NumPy or CuPy, and the device of an array."""
    kind = arrays.kind_of(array, "A")
    return kind.module, kind.view(array, "A").device


def read(A: SparseMatrix) -> Source:
    """`A` of scipy's, CuPy's or PyTorch's as CSR; duplicates are summed, rows sorted, as scipy does."""
    root = type(A).__module__.partition(".")[0]
    if root == "torch":
        return _checked(_of_torch(A))
    if root not in ("scipy", "cupyx") or not hasattr(A, "tocsr"):
        known = "scipy.sparse, cupyx.scipy.sparse or torch.sparse_csr"
        raise TypeError(f"A is a {type(A).__module__}.{type(A).__name__}: pass a matrix of {known}, which are sparse")
    if getattr(A, "ndim", 2) != 2:
        raise ValueError(f"A has {A.ndim} dimensions: a matrix (two) is needed")
    _check_dtype(str(A.dtype))
    csr = A if A.format == "csr" else A.tocsr()
    if root == "cupyx":
        import cupy

        source = Source(_rows(csr), cupy, ("cuda", int(csr.data.device.id)))
    else:
        source = Source(_rows(csr), np, ("cpu", 0))
    return _checked(source)


def _rows(csr: SparseMatrix) -> Csr:
    """Without what the arrays may have behind the last entry."""
    nnz = int(csr.indptr[-1]) if csr.indptr.size else 0
    return Csr((int(csr.shape[0]), int(csr.shape[1])), csr.indptr, csr.indices[:nnz], csr.data[:nnz])


def _of_torch(A: SparseMatrix) -> Source:
    """Of a tensor; its arrays are not copied."""
    import torch

    arrays.kind_of(A, "A").refuse_derivatives(A, "A")  # type: ignore[attr-defined]  # of PyTorch alone
    if A.device.type not in ("cpu", "cuda"):
        raise TypeError(f"A is on {A.device}, where no kernel reads it: move it to the CPU or to an NVIDIA GPU")
    if A.layout is torch.sparse_coo:
        A = A.coalesce().to_sparse_csr()
    if A.layout is not torch.sparse_csr:
        raise TypeError(f"A has layout {A.layout}: pass A.to_sparse_csr()")
    if A.dim() != 2:
        raise ValueError(f"A has {A.dim()} dimensions: a matrix (two) is needed")
    _check_dtype(str(A.dtype).removeprefix("torch."))
    parts = [part.detach().resolve_conj() for part in (A.crow_indices(), A.col_indices(), A.values())]
    shape = (int(A.shape[0]), int(A.shape[1]))
    if A.device.type == "cpu":
        return Source(Csr(shape, *(part.numpy() for part in parts)), np, ("cpu", 0))
    import cupy

    return Source(Csr(shape, *map(cupy.from_dlpack, parts)), cupy, ("cuda", A.device.index or 0))


def _check_dtype(dtype: str) -> None:
    if dtype not in DTYPES:
        raise UnsupportedProblem(
            f"A has dtype {dtype}; supported are {', '.join(DTYPES)}: pass A.astype('float64') or another of them"
        )


def _checked(source: Source) -> Source:
    """The same, after a look at every index; sorted, and without duplicates."""
    rows, xp = source.rows, source.xp
    count, cols = rows.shape
    indptr, indices = rows.indptr, rows.indices
    if indptr.size != count + 1 or indices.size != rows.data.size:
        raise ValueError(
            f"A: indptr of {indptr.size} for {count} rows, {indices.size} indices for {rows.data.size} values"
        )
    if int(indptr[0]) != 0 or int(indptr[-1]) != rows.nnz:
        raise ValueError(f"A: indptr runs from {int(indptr[0])} to {int(indptr[-1])}, not from 0 to {rows.nnz}")
    falls = xp.diff(indptr) < 0
    if bool(falls.any()):
        row = int(xp.argmax(falls))
        raise ValueError(f"A: indptr falls from {int(indptr[row])} to {int(indptr[row + 1])} at row {row}")
    if rows.nnz == 0:
        return source
    outside = (indices < 0) | (indices >= cols)
    if bool(outside.any()):
        place = int(xp.argmax(outside))
        row = int(xp.searchsorted(indptr, xp.asarray([place], indptr.dtype), side="right")[0]) - 1
        raise ValueError(f"A: indices[{place}] = {int(indices[place])} in row {row}: A has {cols} columns")
    # a column that is not beyond the one before, unless it is its row's first; whether rows are sorted is known then
    steps = indices[1:] <= indices[:-1]
    firsts = indptr[1:-1]
    firsts = firsts[(firsts > 0) & (firsts < rows.nnz)]
    steps[firsts - 1] = False
    return Source(_canonical(rows, xp), xp, source.device) if bool(steps.any()) else source


def _canonical(rows: Csr, xp: ModuleType) -> Csr:
    """Sorted, duplicates summed; the caller's arrays stay as they are."""
    copies = (rows.data.copy(), rows.indices.copy(), rows.indptr.copy())
    csr = library(xp).csr_matrix(copies, shape=rows.shape)
    csr.sum_duplicates()
    return _rows(csr)


def library(xp: ModuleType) -> Any:
    """The sparse matrices that go with an array module."""
    if xp is np:
        import scipy.sparse

        return scipy.sparse
    import cupyx.scipy.sparse

    return cupyx.scipy.sparse


def new_values(data: Array, xp: ModuleType, device: tuple[str, int]) -> Array:
    """Values given for a pattern as an array of the matrix' library, where they may come from the host to a GPU;
    gradients are refused, as everywhere."""
    if arrays.library_of(type(data)) is not None:
        kind = arrays.kind_of(data, "data")
        if not kind.immutable:
            view = kind.view(data, "data")
            if view.device[0] != "cpu" and view.device != device:
                here, there = ":".join(map(str, view.device)), ":".join(map(str, device))
                raise ValueError(f"data is on {here} and A on {there}: make the matrix where its values are")
        data = kind.unwrap(data, "data")
    return xp.asarray(data)


def transposed(rows: Csr, xp: ModuleType) -> Csr:
    """The transposed matrix, sorted."""
    csr = library(xp).csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape).T.tocsr()
    csr.sort_indices()
    return _rows(csr)


@dataclass(frozen=True)
class Wish:
    """How a matrix is to be stored; None leaves it to `store`."""

    format: str | None
    C: int
    sigma: int | None
    index: str | None
    values: str | None
    usual: int = 32  # C, where nobody asks for another


def store(source: Source, wish: Wish) -> Csr | Ell | Sell:
    """A matrix in the format that was asked for, or in the one that suits its rows."""
    rows, xp = source.rows, source.xp
    format, sigma = chosen_format(rows, wish, source.device, xp)
    if format == "sell":
        index = wish.index or chosen_index(rows, wish.C, sigma, source.device, xp)
        return chunked.sell_from_csr(rows, wish.C, sigma, index, wish.values, xp)
    index = wish.index or ("int32" if rows.shape[1] < 1 << 31 else "int64")
    if format == "ell":
        return storage.ell_from_csr(rows, index, wish.values, xp)
    places = "int32" if rows.nnz < 1 << 31 else "int64"
    return Csr(
        rows.shape, xp.array(rows.indptr, dtype=places), xp.array(rows.indices, dtype=index),
        xp.array(rows.data, dtype=wish.values or rows.values_dtype),
    )  # fmt: skip


def chosen_format(rows: Csr, wish: Wish, device: tuple[str, int], xp: ModuleType) -> tuple[str, int]:
    """Format and sigma: chunks where they need little padding, sorted within windows if that helps."""
    if wish.format is not None:
        return wish.format, wish.sigma or 1
    if (wish.C, wish.sigma, wish.index) == (wish.usual, None, None):
        if wants_ell(rows, device, xp):
            return "ell", 1
        if wants_csr(rows, device):
            return "csr", 1
    for sigma in (wish.sigma,) if wish.sigma else (1, *_WINDOWS):
        if padding(rows, wish.C, sigma, xp) <= _PADDING:
            return "sell", sigma
    return "csr", 1


def wants_ell(rows: Csr, device: tuple[str, int], xp: ModuleType) -> bool:
    """Whether rows are short and of one length: on GPUs ELLPACK's, since where a chunk begins and how wide it is takes
    longer than its entries (H200, 7 entries a row: 397 us instead of 453, and of 409 with 16-bit columns)."""
    if device[0] != "cuda" or not 0 < rows.nnz <= _SHORT * rows.shape[0]:
        return False
    return int(xp.diff(rows.indptr).max()) * rows.shape[0] <= _EVEN * rows.nnz


def wants_csr(rows: Csr, device: tuple[str, int]) -> bool:
    """Whether a large complex matrix is left in rows, on a CPU whose vectors hold one number: lanes are parts of
    numbers there, and rows of a chunk lie apart (Neoverse N1: `csr` takes 0.6 to 0.7 of the time)."""
    large = rows.nnz >= _CACHED_ENTRIES and rows.values_dtype.startswith("complex")
    return device[0] == "cpu" and large and _vector_bytes() <= 16


def chunk_rows(dtype: str, device: Device) -> int:
    """Rows of a chunk: the lanes of a warp, or what eight vectors of a CPU hold, which leaves room in its registers."""
    if device.backend != "cpu" or dtype.startswith("complex"):
        return 32
    return min(32, max(8, 8 * device.vector_bytes // ITEMSIZE[dtype]))


def _vector_bytes() -> int:
    from ...backends import cpu

    return 64 if cpu.unavailable() else int(cpu.backend().device.vector_bytes)


def padding(rows: Csr, C: int, sigma: int, xp: ModuleType) -> float:
    """Stored entries per entry, of chunks of C rows sorted within windows of sigma; what the last chunk lacks in rows
    does not count."""
    widths = xp.repeat(chunked.widths_of(rows, C, sigma, xp), C)[: rows.shape[0]]
    return float(widths.sum(dtype=xp.int64)) / max(1, rows.nnz) if rows.nnz else 1.0


def chosen_index(rows: Csr, C: int, sigma: int, device: tuple[str, int], xp: ModuleType) -> str:
    """16-bit columns where they reach and save bytes, else the shortest that do."""
    if rows.shape[1] >= 1 << 31:
        return "int64"
    return "delta16" if C >= _WORTH and chunked.fits_delta16(rows, C, sigma, xp) else "int32"


def is_skewed(rows: Csr, xp: ModuleType) -> bool:
    """Whether a few rows are so long that whoever has them is the last to end."""
    if rows.shape[0] == 0 or rows.nnz == 0:
        return False
    return float(xp.diff(rows.indptr).max()) > _SKEW * max(4.0, rows.nnz / rows.shape[0])
