"""How rows are divided among ranks, and in which order: as given, by parts of the graph, or by levels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays.types import Array
from ...errors import BackendUnavailable
from ...operations.sparse.powers.order.levels import levels

ORDERS = ("auto", "partition", "levels")


def divided(lengths: Array, ranks: int) -> Array:
    """First row of every rank, and the number of rows: about as many entries each. A row counts as one entry more."""
    ends = np.cumsum(np.asarray(lengths, np.int64) + 1)
    total = int(ends[-1]) if len(ends) else 0
    goals = total * np.arange(1, ranks, dtype=np.int64) // ranks
    inner = np.searchsorted(ends - (np.asarray(lengths, np.int64) + 1) // 2, goals, side="left")
    return np.concatenate(([0], inner, [len(ends)])).astype(np.int64)


def reordered(pattern: Any, ranks: int, order: str) -> tuple[Array, Array, str]:
    """(permutation, offsets, how) of a square pattern: row i of the new order is row permutation[i].

    "partition" minimises the entries between ranks with METIS (pymetis), "levels" takes breadth-first levels, of which
    each rank has consecutive ones; "auto" takes the first where pymetis is installed.
    """
    if order not in ORDERS:
        raise ValueError(f"reorder={order!r} is not None or one of {', '.join(map(repr, ORDERS))}")
    if pattern.shape[0] != pattern.shape[1]:
        raise ValueError(f"reorder={order!r} needs a square matrix, not {pattern.shape}")
    if order != "levels" and ranks > 1 and pattern.shape[0] > ranks:
        parts = _parts(pattern, ranks, order)
        if parts is not None:
            permutation = np.argsort(parts, kind="stable")
            offsets = np.searchsorted(parts[permutation], np.arange(ranks + 1))
            return permutation, offsets.astype(np.int64), "parts of METIS"
    found = levels(pattern, order="search")
    lengths = np.diff(pattern.indptr)[found.permutation]
    return found.permutation.astype(np.int64), divided(lengths, ranks), f"levels from {found.found}"


def _parts(pattern: Any, ranks: int, order: str) -> Array:
    """The rank of every row by METIS, None where it is not installed and need not be."""
    try:
        import pymetis
    except ImportError:
        if order == "partition":
            raise BackendUnavailable("reorder='partition' needs pymetis: pip install pymetis, or 'levels'") from None
        return None
    both = (abs(pattern) + abs(pattern).T).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    weights = (np.diff(pattern.indptr) + 1).tolist()
    xadj, adjacent = both.indptr.astype(np.int32), both.indices.astype(np.int32)
    return np.asarray(pymetis.part_graph(ranks, xadj=xadj, adjncy=adjacent, vweights=weights)[1], np.int64)
