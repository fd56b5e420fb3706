"""How sparse matrices lie in memory: `Csr`, `Ell` and `Sell`, and the way from one to the other.

Arrays live where the matrix lives: functions take the array module (NumPy or CuPy) as `xp` and use what both have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.types import Array, SparseMatrix

UNIT = 128  # bytes that chunks of a Sell are multiples of
PART = 16  # bytes that the parts of a chunk are multiples of
INDEX_TYPES = {"int32": "int32", "int64": "int64", "delta16": "uint16"}
REACH = 1 << 16  # columns that a 16-bit index reaches from its base
_PIECE = 1 << 18  # entries that are converted at a time on a CPU, so that what is temporary stays in its caches
_LARGE_PIECE = 1 << 25  # and on a GPU, where they take about 100 bytes each


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


def parts(width: int | Array, C: int, values_dtype: str, index: str) -> tuple[Array, Array, Array]:
    """Bytes from a chunk's start to its bases, to its columns, and to its end; `width` is a number or an array."""
    bases = aligned(width * (C * np.dtype(values_dtype).itemsize), PART)
    columns = bases + (aligned(width * 4, PART) if index == "delta16" else 0)
    return bases, columns, aligned(columns + width * (C * np.dtype(INDEX_TYPES[index]).itemsize), UNIT)


def sell_from_csr(
    A: SparseMatrix,
    C: int = 32,
    sigma: int = 1,
    index: str = "int32",
    values_dtype: str | None = None,
    xp: ModuleType = np,
) -> Sell:
    """`A` (a CSR matrix of scipy's, CuPy's, or a `Csr`) as SELL-C-sigma; entries of a row keep their order."""
    return filled(sell_layout(A, C, sigma, index, values_dtype, xp), A, xp)


def sell_layout(
    A: SparseMatrix,
    C: int = 32,
    sigma: int = 1,
    index: str = "int32",
    values_dtype: str | None = None,
    xp: ModuleType = np,
) -> Sell:
    """Where `sell_from_csr` puts the entries: a Sell whose buffer is None."""
    sell = _pattern(A, C, sigma, index, values_dtype or str(A.data.dtype), xp)
    size = int(sell.starts[-1])
    if size >= 1 << 31:
        raise ValueError(f"A takes {size} units of {UNIT} bytes as SELL, 2^31 - 1 can be counted: use format='csr'")
    return replace(sell, starts=sell.starts.astype(xp.int32))


def filled(sell: Sell, A: SparseMatrix, xp: ModuleType = np) -> Sell:
    """The layout of `A` with its entries in a buffer."""
    sell = replace(sell, buffer=xp.zeros(sell.nbytes, xp.uint8))
    values, columns, bases = _views(sell)
    for piece in _pieces(sell, A.indptr, xp):
        if A.data.size == 0:
            break  # no entry to stand in for those that are missing
        values[piece.values] = xp.where(piece.there, A.data[piece.entries], 0)
        column = A.indices[piece.entries]
        if bases is None:
            columns[piece.columns] = column
            continue
        base = _smallest(column, piece.there, xp)
        delta = column - base[:, None]
        if bool(((delta >= REACH) & piece.there).any()):
            raise ValueError("A: columns of a chunk lie 65536 or more apart, beyond index='delta16': use index='int32'")
        bases[piece.bases] = base
        columns[piece.columns] = xp.clip(delta, 0, REACH - 1)  # padding need not be of the row itself
    return sell


def csr_from_sell(sell: Sell, xp: ModuleType = np) -> Csr:
    """The matrix as it was before `sell_from_csr`, in the precision of the stored values."""
    lengths = stored_lengths(sell, xp)
    counts = xp.empty_like(lengths) if sell.permutation is not None else lengths
    if sell.permutation is not None:
        counts[sell.permutation] = lengths
    indptr = _pointers(counts, xp)
    indices = xp.empty(sell.nnz, xp.int64 if sell.index == "int64" else xp.int32)
    data = xp.empty(sell.nnz, sell.values_dtype)
    values, columns, bases = _views(sell)
    for piece in _pieces(sell, indptr, xp):
        there = piece.there
        entries = piece.entries[there]
        data[entries] = values[piece.values][there]
        column = columns[piece.columns]
        if bases is not None:
            column = bases[piece.bases][:, None] + column
        indices[entries] = column[there]
    return Csr(sell.shape, indptr, indices, data)


def sell_with_values(sell: Sell, indptr: Array, data: Array, xp: ModuleType = np) -> Sell:
    """The same pattern with other values, in the order of the CSR matrix that it came from."""
    fresh = replace(sell, buffer=sell.buffer.copy())
    values = _views(fresh)[0]
    for piece in _pieces(fresh, indptr, xp):
        if data.size:
            values[piece.values] = xp.where(piece.there, data[piece.entries], 0)
    return fresh


def fits_delta16(A: SparseMatrix, C: int = 32, sigma: int = 1, xp: ModuleType = np) -> bool:
    """Whether entries j of the rows of a chunk lie within 65536 columns of each other, for every chunk and j."""
    if A.shape[1] <= REACH or A.data.size == 0:
        return True
    for piece in _pieces(_pattern(A, C, sigma, "int32", "float32", xp), A.indptr, xp):
        column = A.indices[piece.entries]
        reach = xp.where(piece.there, column, 0).max(axis=1) - _smallest(column, piece.there, xp)
        if bool((reach >= REACH).any()):
            return False
    return True


def widths_of(A: SparseMatrix, C: int, sigma: int, xp: ModuleType = np) -> Array:
    """How wide the chunks of `sell_from_csr` would be."""
    return _pattern(A, C, sigma, "int32", "float32", xp).widths


def ell_from_csr(A: SparseMatrix, index: str = "int32", values_dtype: str | None = None, xp: ModuleType = np) -> Ell:
    """`A` as ELLPACK: every row as wide as the longest."""
    rows = int(A.shape[0])
    counts = xp.diff(A.indptr).astype(xp.int32)
    width = int(counts.max()) if rows else 0
    values = xp.zeros((width, aligned(rows, 32)), values_dtype or str(A.data.dtype))
    columns = xp.zeros(values.shape, index)
    for slot in range(width):
        there = counts > slot
        entry = _entries(A.indptr[:-1], counts, slot, xp)
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
    return Csr(ell.shape, _pointers(lengths, xp), indices, data)


def stored_lengths(sell: Sell, xp: ModuleType = np) -> Array:
    """Entries of each stored row, whether or not `lengths` says so."""
    if sell.lengths is not None:
        return sell.lengths
    return xp.repeat(sell.widths, sell.C)[: sell.shape[0]]


@dataclass(frozen=True)
class _Piece:
    """Some chunks, all [slots][C]: what is an entry, where it is in the CSR arrays, and where in the views of a Sell.

    Padding has the last entry of its row (or another one that exists) as entry.
    """

    there: Array
    entries: Array
    values: Array
    columns: Array
    bases: Array  # [slots]


def _pattern(A: SparseMatrix, C: int, sigma: int, index: str, values_dtype: str, xp: ModuleType) -> Sell:
    """A Sell without its buffer; the starts are int64 still."""
    rows = int(A.shape[0])
    counts = xp.diff(A.indptr).astype(xp.int32)
    permutation = _by_length(counts, sigma, xp) if sigma > 1 else None
    lengths = counts if permutation is None else counts[permutation]
    chunks = -(-rows // C)
    padded = xp.zeros(chunks * C, xp.int32)
    padded[:rows] = lengths
    widths = padded.reshape(chunks, C).max(axis=1) if chunks else padded
    padded[rows:] = xp.iinfo(xp.int32).max
    common = padded.reshape(chunks, C).min(axis=1) if chunks else padded
    starts = _pointers(parts(widths.astype(xp.int64), C, values_dtype, index)[2] // UNIT, xp, xp.int64)
    full = bool((common == widths).all())
    return Sell(
        (rows, int(A.shape[1])), int(A.data.size), C, sigma, index, values_dtype, None, starts, widths,
        None if full else lengths, permutation, None if full else common,
    )  # fmt: skip


def _pieces(sell: Sell, indptr: Array, xp: ModuleType) -> Iterator[_Piece]:
    """All chunks, in pieces that a CPU's caches hold, or that leave a GPU some memory."""
    slots = _pointers(sell.widths, xp, xp.int64)  # of all chunks before
    known = slots if xp is np else slots.get()
    step = max(1, (_PIECE if xp is np else _LARGE_PIECE) // sell.C)
    begin = 0
    while begin < sell.chunks:
        end = max(begin + 1, int(np.searchsorted(known, known[begin] + step, "right")) - 1)
        if known[end] > known[begin]:
            yield _piece(sell, indptr, slots, (begin, end), (int(known[begin]), int(known[end])), xp)
        begin = end


def _piece(
    sell: Sell, indptr: Array, slots: Array, chunks: tuple[int, int], of: tuple[int, int], xp: ModuleType
) -> _Piece:
    """Chunks from the first to the last of `chunks`, with the slots `of`."""
    C, rows = sell.C, sell.shape[0]
    # the chunk of each slot, and the slot's number in it
    slot = xp.arange(*of)
    chunk = xp.searchsorted(slots[chunks[0] + 1 : chunks[1] + 1], slot, side="right") + chunks[0]
    j = slot - slots[chunk]
    stored = chunk[:, None] * C + xp.arange(C)
    lengths = stored_lengths(sell, xp)
    exists = xp.minimum(stored, rows - 1)
    length = xp.where(stored < rows, lengths[exists], 0)
    row = exists if sell.permutation is None else sell.permutation[exists]
    start = sell.starts[chunk].astype(xp.int64) * UNIT
    bases, columns, _ = parts(sell.widths[chunk].astype(xp.int64), C, sell.values_dtype, sell.index)
    place = (j * C)[:, None] + xp.arange(C)
    return _Piece(
        j[:, None] < length,
        _entries(indptr[:-1][row], length, j[:, None], xp),
        (start // np.dtype(sell.values_dtype).itemsize)[:, None] + place,
        ((start + columns) // np.dtype(INDEX_TYPES[sell.index]).itemsize)[:, None] + place,
        (start + bases) // 4 + j,
    )


def _entries(first: Array, length: Array, slot: Array, xp: ModuleType) -> Array:
    """Entry `slot` of rows that begin at `first`; of shorter rows the last, of empty ones the last before them."""
    return xp.maximum(first + xp.minimum(slot, length - 1), 0)


def _smallest(columns: Array, there: Array, xp: ModuleType) -> Array:
    """The first column of each slot; every slot has one, for chunks are as wide as their longest row."""
    return xp.where(there, columns, xp.iinfo(columns.dtype).max).min(axis=1)


def _views(sell: Sell) -> tuple[Array, Array, Array]:
    """The buffer as values, as columns, and as bases (delta16 alone)."""
    columns = sell.buffer.view(INDEX_TYPES[sell.index])
    return sell.buffer.view(sell.values_dtype), columns, sell.buffer.view("int32") if sell.index == "delta16" else None


def _pointers(counts: Array, xp: ModuleType, dtype: Any = None) -> Array:
    """0 and the running sums of `counts`; as narrow as they fit if no dtype is given."""
    sums = xp.zeros(counts.size + 1, xp.int64)
    sums[1:] = xp.cumsum(counts, dtype=xp.int64)
    return sums.astype(dtype or (xp.int32 if int(sums[-1]) < 1 << 31 else xp.int64), copy=False)


def _by_length(counts: Array, sigma: int, xp: ModuleType) -> Array:
    """Rows from long to short within each window of sigma; equal rows keep their order."""
    window = xp.arange(counts.size, dtype=xp.int64) // sigma
    longest = int(counts.max()) if counts.size else 0
    return xp.argsort(window * (longest + 1) + (longest - counts), kind="stable").astype(xp.int32)
