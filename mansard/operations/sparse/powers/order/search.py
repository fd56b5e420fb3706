"""Breadth-first orders of a sparsity pattern from roots that make narrow levels.

From a single corner of a 27-point grid levels are three faces of a cube; from one face they are planes. So several root
sets are tried, each found by the sweep before it, and the one whose widest level is lightest is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from .....arrays.types import Array
from .....errors import UnsupportedProblem

_ROUNDS = 3  # a corner of a grid has so many faces across


class Graph:
    """A symmetric pattern of `rows` vertices, and one more vertex whose neighbours are the roots of a sweep."""

    def __init__(self, indptr: Array, indices: Array) -> None:
        self.rows, entries = len(indptr) - 1, len(indices)
        if entries + self.rows >= 2**31:
            raise UnsupportedProblem(f"{entries} entries are too many to be searched: their count must fit 31 bits")
        self.indptr = np.append(indptr, 0).astype(np.int32)
        self.indices = np.empty(entries + self.rows, np.int32)
        self.indices[:entries] = indices
        self.degrees = np.diff(self.indptr[:-1])

    def depths(self, roots: Array) -> tuple[Array, Array]:
        """Distance of every vertex from the nearest root, -1 where there is no path: int32 [rows]; and the vertices
        reached, in breadth-first order."""
        order, previous = self._sweep(np.asarray(roots, np.int32))
        place = np.empty(self.rows + 1, np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        parents = place[previous[order[1:]]]  # never falls: the queue is worked off in order
        depths = np.full(self.rows + 1, -1, np.int32)
        begin, end, depth = 0, 1, -1
        while begin < len(order):
            depths[order[begin:end]] = depth
            begin, end, depth = end, int(np.searchsorted(parents, np.int32(end))) + 1, depth + 1
        return depths[:-1], order[1:]

    def _sweep(self, roots: Array) -> tuple[Array, Array]:
        filled = int(self.indptr[-2])
        end = filled + len(roots)
        self.indices[filled:end], self.indptr[-1] = roots, end
        pattern = sparse.csr_array((self.rows + 1, self.rows + 1))
        # one number for all entries: only the pattern is looked at
        pattern.data = np.broadcast_to(np.float64(1), end)
        pattern.indices, pattern.indptr = self.indices[:end], self.indptr
        return csgraph.breadth_first_order(pattern, self.rows, directed=True)  # type: ignore[no-any-return]

    def components(self) -> Array:
        """Which connected component every vertex is in: int32 [rows]."""
        filled, size = int(self.indptr[-2]), (self.rows, self.rows)
        ones = np.ones(filled, np.bool_)
        pattern = sparse.csr_array((ones, self.indices[:filled].copy(), self.indptr[:-1].copy()), shape=size)
        pattern.sum_duplicates()  # SciPy's search for strong components never ends on entries given twice
        return csgraph.connected_components(pattern, directed=True, connection="strong")[1]


def symmetrised(indptr: Array, indices: Array) -> tuple[Array, Array]:
    """The pattern of A + A^T."""
    rows = len(indptr) - 1
    ones = np.ones(len(indices), np.bool_)
    A = sparse.csr_array((ones, indices, indptr), shape=(rows, rows))
    both = A + A.T.tocsr()
    return both.indptr, both.indices


class Order(NamedTuple):
    """Rows in breadth-first order."""

    permutation: Array  # int32 [rows]
    number: Array  # of the level of every row, in the new order
    roots: str  # from where


def breadth_first(
    indptr: Array, indices: Array, weights: Array, *, roots: Array = None, enough: float = 0.0
) -> Order | None:
    """Rows in the order of the level structure whose widest level is lightest; None if the pattern is not symmetric.

    `weights` (bytes) of rows are what a level's width is measured in; the first structure no wider than `enough` is
    taken. Components follow one another. A pattern that is symmetric but for a few entries may pass: whether neighbours
    are in neighbouring levels is the caller's to check, who looks at all entries once anyway.
    """
    if _one_way(indptr, indices):
        return None
    graph = Graph(indptr, indices)
    depths, _ = graph.depths([0] if roots is None else roots)
    labels = graph.components() if (depths < 0).any() else np.zeros(graph.rows, np.int32)
    best: Any = (np.inf,)
    for depths, queued, name in _tries(graph, labels, roots):
        if len(queued) < graph.rows:
            return None
        numbers = _numbered(labels, depths)
        widest = float(np.bincount(numbers, weights).max())
        if widest < best[0]:
            best = (widest, numbers, queued, name)
        if widest <= enough:
            break
    _, numbers, queued, name = best
    permutation = _settled(graph, labels, numbers, queued)
    return Order(permutation, numbers[permutation], name)


def _one_way(indptr: Array, indices: Array, sample: int = 4096) -> bool:
    """Whether one of a sample of entries has no counterpart across the diagonal."""
    if not len(indices):
        return False
    entries = np.unique(np.linspace(0, len(indices) - 1, sample, dtype=np.int64))
    rows = np.searchsorted(indptr, entries, side="right") - 1
    begins, lengths = indptr[indices[entries]], np.diff(indptr)[indices[entries]]
    if not lengths.all():
        return True
    firsts = np.cumsum(lengths) - lengths
    across = indices[np.repeat(begins - firsts, lengths) + np.arange(int(lengths.sum()))]
    found = np.logical_or.reduceat(across == np.repeat(rows, lengths), firsts)
    return not bool(found.all())


def _tries(graph: Graph, labels: Array, roots: Array) -> Iterator[tuple[Array, Array, str]]:
    """(depths, order, name) of sweeps, all components side by side; later ones follow from earlier ones."""
    components, start = np.unique(labels, return_index=True)
    if roots is not None:
        bare = ~np.isin(components, labels[roots])
        yield *graph.depths(np.concatenate([roots, start[bare]])), "the given roots"
        return
    depths, _ = graph.depths(start)
    end = _light_ends(graph, labels, depths)
    depths, queued = graph.depths(end)
    yield depths, queued, "an end"
    far = np.flatnonzero(depths == _deepest(labels, depths)[labels])
    if len(far) > len(components):
        yield *graph.depths(far), "the level farthest from an end"
    for _ in range(_ROUNDS):
        # what is nearer to one of the level's corners than the rest: one face where it was several
        depths, queued = graph.depths(_light_ends(graph, labels, depths, far))
        yield depths, queued, "the other end"
        farthest = _deepest(labels[far], depths[far])[labels[far]]
        near = far[(depths[far] < farthest) | (farthest == 0)]
        if len(near) == len(far):
            return
        far = near
        yield *graph.depths(far), "one side of the level farthest from an end"


def _deepest(labels: Array, depths: Array) -> Array:
    deepest = np.full(int(labels.max(initial=0)) + 1, -1, np.int32)
    np.maximum.at(deepest, labels, depths)
    return deepest


def _light_ends(graph: Graph, labels: Array, depths: Array, among: slice | Array = slice(None)) -> Array:
    """Per component, a vertex with few neighbours among those that lie deepest."""
    among = np.arange(graph.rows)[among]
    last = among[depths[among] == _deepest(labels[among], depths[among])[labels[among]]]
    by_degree = last[np.lexsort((graph.degrees[last], labels[last]))]
    _, first = np.unique(labels[by_degree], return_index=True)
    return by_degree[first]


def _numbered(labels: Array, depths: Array) -> Array:
    """Number of the level of every row, components one after the other."""
    begins = np.cumsum(_deepest(labels, depths).astype(np.int64) + 1)
    return np.concatenate([[0], begins[:-1]]).astype(np.int32)[labels] + depths


def _settled(graph: Graph, labels: Array, numbers: Array, queued: Array) -> Array:
    """Rows by level. Within a level the queue's order, or the matrix' own where it gathers fewer lines."""
    small = numbers.astype(np.int16) if numbers.max(initial=0) < 2**15 else numbers  # sorted in linear time
    own = np.argsort(small, kind="stable")
    if labels.any():
        queued = queued[np.argsort(small[queued], kind="stable")]
    orders = [order.astype(np.int32, copy=False) for order in (own, queued)]
    return min(orders, key=lambda order: _lines(graph, order))


def _lines(graph: Graph, order: Array, chunks: int = 256, rows: int = 32, line: int = 16) -> int:
    """Lines of x (of 16 numbers) that a sample of chunks of rows gathers."""
    place = np.empty(graph.rows, np.int32)
    place[order] = np.arange(graph.rows, dtype=np.int32)
    count = 0
    for begin in np.linspace(0, max(graph.rows - rows, 0), min(chunks, -(-graph.rows // rows)), dtype=np.int64):
        chosen = order[begin : begin + rows]
        entries = [graph.indices[graph.indptr[row] : graph.indptr[row + 1]] for row in chosen]
        count += len(np.unique(place[np.concatenate(entries)] // line))
    return count
