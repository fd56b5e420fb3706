"""How sparse matrices lie in memory: `Csr`, `Ell` and `Sell`; rows as ELLPACK and back (`chunked.py` has SELL-C-sigma).

Arrays live where the matrix lives: functions take the array module (NumPy or CuPy) as `xp` and use what both have.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.types import Array, SparseMatrix

UNIT = 128  # bytes that chunks of a Sell are multiples of
PART = 16  # bytes that the parts of a chunk are multiples of
INDEX_TYPES = {"int32": "int32", "int64": "int64", "delta16": "uint16"}


@dataclass(frozen=True)
class Csr:
    """Rows one after the other, as scipy stores them."""

    shape: tuple[int, int]
    indptr: Array  # [rows + 1]
    indices: Array  # [nnz]
    data: Array  # [nnz]

    @property
    def nnz(self) -> int:
        return int(self.data.size)

    @property
    def index(self) -> str:
        return str(self.indices.dtype)

    @property
    def values_dtype(self) -> str:
        return str(self.data.dtype)


@dataclass(frozen=True)
class Ell:
    """ELLPACK: entry j of row i at [j][i]; `pitch` rows, a multiple of 32, so that every line begins aligned."""

    shape: tuple[int, int]
    nnz: int
    values: Array  # [width][pitch]; padding: 0
    columns: Array  # [width][pitch]; padding: a column that exists
    lengths: Array  # int32 [rows]; None if every row has `width` entries

    @property
    def index(self) -> str:
        return str(self.columns.dtype)

    @property
    def values_dtype(self) -> str:
        return str(self.values.dtype)

    @property
    def width(self) -> int:
        return int(self.values.shape[0])

    @property
    def pitch(self) -> int:
        return int(self.values.shape[1])


@dataclass(frozen=True)
class Sell:
    """SELL-C-sigma: chunks of C rows, each as wide as its longest row, values and columns of a chunk side by side.

    Chunk c begins at byte `starts[c] * 128` of `buffer` and holds values [width][C] (entry j of row r at j * C + r),
    for delta16 the bases int32 [width] (the smallest column of entries j among the chunk's rows), then the columns
    [width][C] (delta16: uint16, column - base). Each part begins at a multiple of 16 bytes. Padding (beyond a row's
    length, beyond the last row) holds value 0 and a column that exists, but belongs to no sum: x may hold NaN there.
    """

    shape: tuple[int, int]
    nnz: int
    C: int
    sigma: int  # rows are sorted by length within windows of so many; 1: not at all
    index: str  # int32, int64 or delta16
    values_dtype: str
    buffer: Array  # uint8; None in a layout
    starts: Array  # int32 [chunks + 1], in units of 128 bytes
    widths: Array  # int32 [chunks]
    lengths: Array  # int32 [rows] in stored order; None when every row has its chunk's width
    permutation: Array  # int32 [rows]: stored row i is row permutation[i]; None when that is i
    # int32 [chunks]: entries that every row of a chunk has, so that lengths are read where rows differ alone; None with
    # `lengths`
    common: Array = None

    @property
    def chunks(self) -> int:
        return int(self.widths.size)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer, be it there or not."""
        return int(self.starts[-1]) * UNIT


def array_module(array: Array) -> ModuleType:
    """NumPy or CuPy, whichever the array is of."""
    return arrays.kind_of(array, "array").module


def host(array: Array) -> Array:
    """The array in the memory of the host."""
    return arrays.kind_of(array, "array").download(array)


def realigned(stored: Any) -> Any:
    """The same storage, with copies of host arrays that do not begin at a multiple of 16 bytes: those that are
    unpickled over somebody's buffers begin anywhere."""
    given = {one.name: getattr(stored, one.name) for one in fields(stored)}
    odd = {name: one for name, one in given.items() if isinstance(one, np.ndarray) and one.ctypes.data % PART}
    return replace(stored, **{name: one.copy() for name, one in odd.items()}) if odd else stored


def aligned(size: int | Array, unit: int) -> Array:
    """`size` (a number or an array of them) rounded up to a multiple of `unit`."""
    return (size + (unit - 1)) // unit * unit


def ell_from_csr(A: SparseMatrix, index: str = "int32", values_dtype: str | None = None, xp: ModuleType = np) -> Ell:
    """`A` as ELLPACK: every row as wide as the longest."""
    rows = int(A.shape[0])
    counts = xp.diff(A.indptr).astype(xp.int32)
    width = int(counts.max()) if rows else 0
    values = xp.zeros((width, aligned(rows, 32)), values_dtype or str(A.data.dtype))
    columns = xp.zeros(values.shape, index)
    for slot in range(width):
        there = counts > slot
        entry = entry_of(A.indptr[:-1], counts, slot, xp)
        values[slot, :rows] = xp.where(there, A.data[entry], 0)
        columns[slot, :rows] = A.indices[entry]
    full = bool((counts == width).all())
    return Ell((rows, int(A.shape[1])), int(A.data.size), values, columns, None if full else counts)


def csr_from_ell(ell: Ell, xp: ModuleType = np) -> Csr:
    """The matrix as it was before `ell_from_csr`."""
    rows = ell.shape[0]
    lengths = ell.lengths if ell.lengths is not None else xp.full(rows, ell.width, xp.int32)
    there = xp.arange(ell.width)[None, :] < lengths[:, None]
    data, indices = ell.values[:, :rows].T[there], ell.columns[:, :rows].T[there]
    return Csr(ell.shape, pointers(lengths, xp), indices, data)


def pointers(counts: Array, xp: ModuleType, dtype: Any = None) -> Array:
    """0 and the running sums of `counts`; as narrow as they fit if no dtype is given."""
    sums = xp.zeros(counts.size + 1, xp.int64)
    sums[1:] = xp.cumsum(counts, dtype=xp.int64)
    return sums.astype(dtype or (xp.int32 if int(sums[-1]) < 1 << 31 else xp.int64), copy=False)


def entry_of(first: Array, length: Array, slot: Array, xp: ModuleType) -> Array:
    """Entry `slot` of rows that begin at `first`; of shorter rows the last, of empty ones the last before them."""
    return xp.maximum(first + xp.minimum(slot, length - 1), 0)
