"""Adjacency matrices of graphs: triangulations, channels, Kronecker (R-MAT) graphs, something like roads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from .matrices_grid import checked_shape, csr, grid, index_type, uniform


def channel(shape: Sequence[int] = (500, 98, 98), *, dtype: Any = np.float64, xp: Any = np) -> Any:
    """Every point of a grid with its 18 neighbours across faces and edges, not with itself; open boundaries. The
    default shape has the rows and entries of channel-500x100x100-b050."""
    offsets = [step for step in product((-1, 0, 1), repeat=3) if 1 <= sum(map(abs, step)) <= 2]
    return grid(shape, offsets, np.ones(len(offsets)), dtype=dtype, xp=xp)


def channel_entries(shape: Sequence[int]) -> int:
    """Entries of `channel`: the box of 27 without its centre and its eight corners."""
    box, corners, rows = 1, 8, 1
    for extent in checked_shape(shape):
        box, corners, rows = box * (3 * extent - 2), corners * (extent - 1), rows * extent
    return box - corners - rows


def delaunay(count: int, *, seed: int = 0, dtype: Any = np.float64, xp: Any = np) -> Any:
    """Delaunay triangulation of `count` points uniform in the unit square, in random order: 6 entries a row on average.
    Formed on the host."""
    from scipy.spatial import Delaunay

    if count < 3:
        raise ValueError(f"count={count}: a triangulation has at least three points")
    points = uniform(np, 2 * count, seed).reshape(count, 2)
    corners = Delaunay(points).simplices
    edges = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])
    return adjacency(xp, xp.asarray(edges[:, 0]), xp.asarray(edges[:, 1]), count, dtype)


def kronecker(
    scale: int, edge_factor: int = 16, *, seed: int = 0, dtype: Any = np.float64, xp: Any = np,
    probabilities: tuple[float, float, float] = (0.57, 0.19, 0.19),
) -> Any:  # fmt: skip
    """A Kronecker (R-MAT) graph of 2^scale vertices and edge_factor * 2^scale edges drawn, both ways, each once,
    without loops: a few rows hold most entries, and no order blocks it."""
    count, edges = 1 << scale, edge_factor << scale
    a, b, c = probabilities
    rows, columns = xp.zeros(edges, np.int64), xp.zeros(edges, np.int64)
    for bit in range(scale):
        drawn = uniform(xp, edges, seed * 64 + bit)
        below = drawn >= a + b
        rows |= below.astype(np.int64) << bit
        columns |= (((drawn >= a) & ~below) | (drawn >= a + b + c)).astype(np.int64) << bit
    apart = rows != columns
    return adjacency(xp, rows[apart], columns[apart], count, dtype)


def roads(side: int, *, keep: float = 0.75, seed: int = 0, dtype: Any = np.float64, xp: Any = np) -> Any:
    """Something like a road network: of a side x side grid a share `keep` of the edges, each cut in three by two more
    vertices; of that the largest connected part. About 2.25 entries a row. Formed on the host."""
    from scipy.sparse import csgraph

    (side,) = checked_shape((side,))
    point = np.arange(side * side).reshape(side, side)
    begins = np.concatenate([point[:, :-1].ravel(), point[:-1].ravel()])
    ends = np.concatenate([point[:, 1:].ravel(), point[1:].ravel()])
    kept = uniform(np, len(begins), seed) < keep
    begins, ends = begins[kept], ends[kept]
    between = side * side + np.arange(2 * len(begins)).reshape(2, -1)
    count = side * side + between.size
    rows, columns = np.concatenate([begins, between[0], between[1]]), np.concatenate([between[0], between[1], ends])
    whole = adjacency(np, rows, columns, count, np.float64)
    labels = csgraph.connected_components(whole, directed=False)[1]
    chosen = labels == np.bincount(labels).argmax()
    name = np.cumsum(chosen) - 1
    inside = chosen[rows]
    rows, columns = name[rows[inside]], name[columns[inside]]
    return adjacency(xp, xp.asarray(rows), xp.asarray(columns), int(chosen.sum()), dtype)


def adjacency(xp: Any, rows: Any, columns: Any, count: int, dtype: Any) -> Any:
    """Ones at every edge, both ways; each once, however often it is given."""
    low, high = xp.minimum(rows, columns), xp.maximum(rows, columns)
    edges = xp.unique(low.astype(np.int64) * count + high)
    low, high = edges // count, edges % count
    keys = xp.sort(xp.concatenate([edges, high * count + low]))
    index = index_type(count, len(keys))
    indptr = xp.searchsorted(keys, xp.arange(count + 1, dtype=np.int64) * count).astype(index)
    return csr(xp, xp.ones(len(keys), dtype), (keys % count).astype(index), indptr, count)
