"""How far the rows of a matrix reach in a given order, and the levels that follow from it.

A level structure is an order of the rows and boundaries in it such that entries of level L lie in levels L-1, L, L+1.
Any order has one: boundaries b with b[L+1] beyond every column that rows before b[L] read, and beyond every row that
reads columns before b[L]. A breadth-first order makes the levels narrow, a banded matrix has narrow ones as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from .....arrays.types import Array
from ...storage import array_module


@dataclass(frozen=True)
class Levels:
    """Row i of the new order is row permutation[i] of the matrix; level L is rows starts[L] to starts[L + 1] of it."""

    permutation: Array  # int32 [rows]
    starts: Array  # int32 [levels + 1]
    kept: bool  # the order is the matrix' own
    found: str  # how: "the matrix' own order", or the roots of a search

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def widest(self) -> int:
        """Rows of the widest level."""
        return int(np.diff(self.starts).max(initial=0))

    @property
    def inverse(self) -> Array:
        """Where a row of the matrix went: int32 [rows]."""
        place = np.empty_like(self.permutation)
        place[self.permutation] = np.arange(len(place), dtype=place.dtype)
        return place


def row_reach(indptr: Array, indices: Array) -> tuple[Array, Array]:
    """Lowest and highest column of every row; an empty row reaches itself. Columns may be in any order."""
    xp = array_module(indices)
    own = xp.arange(len(indptr) - 1, dtype=indices.dtype)
    filled = indptr[1:] > indptr[:-1]
    if not len(indices):
        return own, own.copy()
    starts = indptr[:-1][filled]
    low, high = own, own.copy()
    if xp is np:
        low[filled] = np.minimum.reduceat(indices, starts)
        high[filled] = np.maximum.reduceat(indices, starts)
    else:  # CuPy reduces no segments; rows in ascending order need none
        indices = _ascending(xp, indptr, indices)
        low[filled], high[filled] = indices[starts], indices[indptr[1:][filled] - 1]
    return low, high


def _ascending(xp: ModuleType, indptr: Array, indices: Array) -> Array:
    falls = indices[1:] < indices[:-1]
    inner = indptr[1:-1]
    falls[inner[(inner > 0) & (inner < len(indices))] - 1] = False  # from one row to the next
    if not bool(falls.any()):
        return indices
    rows = xp.searchsorted(indptr, xp.arange(len(indices)), side="right")
    return indices[xp.lexsort(xp.stack([indices, rows]))]


def tile_reach(indptr: Array, indices: Array, tile_rows: int, *, columns: bool = False) -> tuple[Array, Array]:
    """Lowest and highest tile (or column) that every tile of `tile_rows` consecutive rows reads.

    A tile without entries reads itself (its first and last row). Arrays are NumPy's or CuPy's, as `indices` is; indices
    of tiles of a square matrix.
    """
    if tile_rows < 1:
        raise ValueError(f"tile_rows={tile_rows}: a tile has at least one row")
    xp = array_module(indices)
    rows = len(indptr) - 1
    tiles = -(-rows // tile_rows)
    low, high = row_reach(indptr, indices)
    empty = indptr[1:] == indptr[:-1]
    starts = indptr[xp.minimum(xp.arange(tiles + 1) * tile_rows, rows)]
    full = starts[1:] > starts[:-1]
    nowhere = np.iinfo(low.dtype).max
    low[empty], high[empty] = nowhere, -1  # an empty row must not widen a tile that has entries
    low = _folded(xp, low, tiles, tile_rows, nowhere).min(axis=1)
    high = _folded(xp, high, tiles, tile_rows, -1).max(axis=1)
    first = xp.arange(tiles, dtype=low.dtype) * tile_rows
    low = xp.where(full, low, first)
    high = xp.where(full, high, xp.minimum(first + tile_rows, rows) - 1)
    return (low, high) if columns else (low // tile_rows, high // tile_rows)


def _folded(xp: ModuleType, array: Array, tiles: int, tile_rows: int, pad: int) -> Array:
    padded = xp.full(tiles * tile_rows, pad, array.dtype)
    padded[: len(array)] = array
    return padded.reshape(tiles, tile_rows)


def boundaries(low: Array, high: Array, *, least: int = 1, align: int = 1) -> Array:
    """Finest level boundaries of an order whose rows reach from `low` to `high`: int32 [levels + 1].

    Levels have at least `least` rows, and begin at multiples of `align` rows.
    """
    rows = len(low)
    if not rows:
        return np.zeros(1, np.int32)
    own = np.arange(rows)
    ahead = np.maximum.accumulate(np.maximum(high, own)) + 1  # [e - 1]: beyond all columns that rows before e read
    behind = np.minimum.accumulate(np.minimum(low, own)[::-1])[::-1].copy()  # [t]: first column of rows from t on
    found = [0]
    while (begin := found[-1]) < rows:
        after = max(int(ahead[begin - 1]), int(np.searchsorted(behind, begin))) if begin else 0
        after = _free_end(ahead, behind, begin) if after <= begin else after
        found.append(min(-(-max(after, begin + least) // align) * align, rows))
    return np.array(found, np.int32)


def _free_end(ahead: Array, behind: Array, begin: int) -> int:
    """Where a level ends that nothing before it reaches into. Later ends follow from this one, so the one for which the
    wider of this level and the next is narrowest: planes of a grid are found whole."""
    after = max(int(ahead[begin]), int(np.searchsorted(behind, begin + 1)))
    ends = np.arange(begin + 1, min(after, len(ahead)) + 1)
    widths = np.maximum(ahead[ends - 1], np.searchsorted(behind, ends)) - ends
    wider = np.maximum(widths, ends - begin)
    return int(ends[np.flatnonzero(wider == wider.min())[-1]])
