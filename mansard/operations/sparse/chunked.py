"""SELL-C-sigma: where the entries of a CSR matrix go, in chunks of C rows, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np

from ...arrays.types import Array, SparseMatrix
from .storage import INDEX_TYPES, PART, UNIT, Csr, Sell, aligned, entry_of, pointers

REACH = 1 << 16  # columns that a 16-bit index reaches from its base
_PIECE = 1 << 18  # entries that are converted at a time on a CPU, so that what is temporary stays in its caches
_LARGE_PIECE = 1 << 25  # and on a GPU, where they take about 100 bytes each


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
    indptr = pointers(counts, xp)
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
    starts = pointers(parts(widths.astype(xp.int64), C, values_dtype, index)[2] // UNIT, xp, xp.int64)
    full = bool((common == widths).all())
    return Sell(
        (rows, int(A.shape[1])), int(A.data.size), C, sigma, index, values_dtype, None, starts, widths,
        None if full else lengths, permutation, None if full else common,
    )  # fmt: skip


def _pieces(sell: Sell, indptr: Array, xp: ModuleType) -> Iterator[_Piece]:
    """All chunks, in pieces that a CPU's caches hold, or that leave a GPU some memory."""
    slots = pointers(sell.widths, xp, xp.int64)  # of all chunks before
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
        entry_of(indptr[:-1][row], length, j[:, None], xp),
        (start // np.dtype(sell.values_dtype).itemsize)[:, None] + place,
        ((start + columns) // np.dtype(INDEX_TYPES[sell.index]).itemsize)[:, None] + place,
        (start + bases) // 4 + j,
    )


def _smallest(columns: Array, there: Array, xp: ModuleType) -> Array:
    """The first column of each slot; every slot has one, for chunks are as wide as their longest row."""
    return xp.where(there, columns, xp.iinfo(columns.dtype).max).min(axis=1)


def _views(sell: Sell) -> tuple[Array, Array, Array]:
    """The buffer as values, as columns, and as bases (delta16 alone)."""
    columns = sell.buffer.view(INDEX_TYPES[sell.index])
    return sell.buffer.view(sell.values_dtype), columns, sell.buffer.view("int32") if sell.index == "delta16" else None


def _by_length(counts: Array, sigma: int, xp: ModuleType) -> Array:
    """Rows from long to short within each window of sigma; equal rows keep their order."""
    window = xp.arange(counts.size, dtype=xp.int64) // sigma
    longest = int(counts.max()) if counts.size else 0
    return xp.argsort(window * (longest + 1) + (longest - counts), kind="stable").astype(xp.int32)
