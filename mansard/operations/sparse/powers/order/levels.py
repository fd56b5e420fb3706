"""Level structures of sparse matrices: an order of the rows, and boundaries such that entries of level L lie in levels
L-1, L, L+1. Powers of a matrix are computed along them while the matrix stays in a cache (schedule.py)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .....arrays.types import Array, SparseMatrix
from ...storage import host
from .reach import Levels, boundaries, row_reach, tile_reach
from .schedule import groups, level_bytes, row_bytes, schedule, sections, too_wide, violated
from .search import Order, breadth_first, symmetrised

__all__ = [
    "Levels",
    "groups",
    "level_bytes",
    "levels",
    "misplaced",
    "permuted",
    "row_bytes",
    "schedule",
    "sections",
    "tile_reach",
    "too_wide",
    "violated",
]

# bytes of a level that need no narrower one: six of them stay in the L2 cache of an H200
_ENOUGH = 6 << 20
_KEPT = 1.25  # rows stay where they are if that makes the widest level at most this much wider
_MOST_LEVELS = 1 << 16  # finer ones only cost time: consecutive levels are always a level again


def levels(
    A: SparseMatrix,
    *,
    order: str = "auto",
    roots: Sequence[int] | Array = None,
    budget: float = _ENOUGH,
    entry_bytes: int = 12,
    least: int | None = None,
    align: int = 1,
) -> Levels:
    """Levels of a square matrix of any pattern, symmetric or not, connected or not.

    Parameters
    ----------
    A : CSR matrix of scipy.sparse or cupyx.scipy.sparse, or anything with `tocsr`. Values do not matter; columns may be
        in any order, and twice. A matrix on a GPU is searched on the host where its own order does not serve
    order : "auto" keeps the rows where they are if the widest level then fits `budget`, or is hardly wider than what
        breadth-first searches find; "given" keeps them in any case; "search" does not consider it
    roots : rows from which to search
    budget : bytes of one level that need not be reduced
    entry_bytes : bytes of an entry: value and index
    least : the fewest rows of a level (1 / 65536 of all unless given)
    align : levels begin at multiples of so many rows (the last one may be shorter): chunks then lie within a level
    """
    indptr, indices, rows = _pattern(A)
    _check_options(order, rows, least, align)
    least = max(1, rows // _MOST_LEVELS) if least is None else least
    weights = host(indptr[1:] - indptr[:-1]) * float(entry_bytes) + 16
    own = None
    if order != "search" and roots is None:
        low, high = (host(array) for array in row_reach(indptr, indices))
        starts = boundaries(low, high, least=least, align=align)
        own = Levels(np.arange(rows, dtype=np.int32), starts, True, "the matrix' own order")
        if order == "given" or not rows or _widest(own, weights) <= budget:
            return own
    indptr, indices = host(indptr), host(indices)
    roots = None if roots is None else _checked_roots(roots, rows)
    found, low, high = _searched(indptr, indices, weights, roots, budget)
    starts = boundaries(low, high, least=least, align=align)
    searched = Levels(found.permutation, starts, False, found.roots)
    if own is not None and _widest(own, weights) <= _KEPT * _widest(searched, weights):
        return own
    return searched


def misplaced(levels: Levels, A: SparseMatrix) -> str | None:
    """The first entry that reaches beyond the neighbours of its level, None if there is none."""
    indptr, indices, rows = _pattern(A)
    if not np.array_equal(np.sort(levels.permutation), np.arange(rows)):
        return "the permutation does not name every row once"
    level_of = np.empty(rows, np.int64)
    level_of[levels.permutation] = np.repeat(np.arange(levels.count), np.diff(levels.starts))
    row = np.repeat(np.arange(rows), np.diff(host(indptr)))
    column = host(indices)
    beyond = np.abs(level_of[row] - level_of[column]) > 1
    if not beyond.any():
        return None
    first = int(np.argmax(beyond))
    i, j = int(row[first]), int(column[first])
    return f"entry ({i}, {j}) joins levels {level_of[i]} and {level_of[j]}"


def permuted(A: SparseMatrix, permutation: Array) -> SparseMatrix:
    """P A P^T, row i of which is row permutation[i] of A (scipy.sparse CSR).

    The entries of a row keep their order, so that its sums are those of A bit for bit; columns then ascend no longer.
    """
    rows = A[permutation]
    place = np.empty(A.shape[0], rows.indices.dtype)
    place[permutation] = np.arange(A.shape[0], dtype=place.dtype)
    rows.indices = place[rows.indices]
    rows.has_sorted_indices = False
    return rows


def _pattern(A: SparseMatrix) -> tuple[Array, Array, int]:
    """indptr, indices and the number of rows, checked."""
    shape = tuple(A.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"A has shape {shape}: only square matrices have levels")
    if not (hasattr(A, "indptr") and hasattr(A, "indices")) or getattr(A, "format", "csr") != "csr":
        A = A.tocsr()
    if len(A.indices) and not 0 <= int(A.indices.min()) <= int(A.indices.max()) < shape[1]:
        entry = int(((A.indices < 0) | (A.indices >= shape[1])).argmax())
        raise ValueError(f"A has column {int(A.indices[entry])} (entry {entry}) but shape {shape}")
    return A.indptr, A.indices, shape[0]


def _check_options(order: str, rows: int, least: int | None, align: int) -> None:
    if order not in ("auto", "given", "search"):
        raise ValueError(f"order={order!r} is not one of 'auto', 'given', 'search'")
    if (least is not None and least < 1) or align < 1:
        raise ValueError(f"least={least}, align={align}: levels have at least one row")
    if rows >= 2**31:
        raise ValueError(f"A has {rows} rows: their numbers must fit 31 bits")


def _checked_roots(roots: Array, rows: int) -> Array:
    roots = np.unique(np.atleast_1d(roots))
    if not len(roots) or roots[0] < 0 or roots[-1] >= rows:
        raise ValueError(f"roots must name rows 0 to {rows - 1}: {roots}")
    return roots


def _widest(levels: Levels, weights: Array) -> float:
    """Bytes of the widest level."""
    total = np.concatenate([[0.0], np.cumsum(weights[levels.permutation] if not levels.kept else weights)])
    return float(np.diff(total[levels.starts]).max(initial=0.0))


def _searched(indptr: Array, indices: Array, weights: Array, roots: Array, budget: float) -> tuple[Order, Array, Array]:
    """A breadth-first order of A, or of A + A^T, and how far its rows reach."""
    found = breadth_first(indptr, indices, weights, roots=roots, enough=budget)
    if found is not None:
        low, high = _reach_permuted(indptr, indices, found.permutation)
        number = found.number
        if bool(((number[low] >= number - 1) & (number[high] <= number + 1)).all()):
            return found, low, high
    both = symmetrised(indptr, indices)
    found = breadth_first(*both, weights, roots=roots, enough=budget)
    assert found is not None
    return found, *_reach_permuted(indptr, indices, found.permutation)


def _reach_permuted(indptr: Array, indices: Array, permutation: Array) -> tuple[Array, Array]:
    """Reach of the rows of the permuted matrix, without forming it."""
    place = np.empty(len(permutation), np.int32)
    place[permutation] = np.arange(len(permutation), dtype=np.int32)
    low, high = row_reach(indptr, place[indices])
    empty = np.diff(indptr) == 0
    low[empty], high[empty] = place[empty], place[empty]
    return low[permutation], high[permutation]
