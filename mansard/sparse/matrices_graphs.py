"""Adjacency matrices of graphs: triangulations, channels, Kronecker (R-MAT) graphs, something like roads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from ..arrays.types import SparseMatrix
from .matrices_grid import checked_shape, csr, grid, index_type, uniform


def channel(shape: Sequence[int] = (500, 98, 98), *, dtype: Any = np.float64, xp: Any = np) -> SparseMatrix:
    """Adjacency of a grid: every point with its 18 neighbours across faces and edges, and zeros on the diagonal.

    Boundaries are open. The default shape has the rows and entries of SuiteSparse's channel-500x100x100-b050.

    >>> import mansard as ms
    >>> A = ms.sparse.matrices.channel((3, 3, 3))
    >>> A.shape, A.nnz, int(A.sum(axis=1).max())
    ((27, 27), 252, 18)
    """
    offsets = [step for step in product((-1, 0, 1), repeat=3) if 1 <= sum(map(abs, step)) <= 2]
    return grid(shape, offsets, np.ones(len(offsets)), dtype=dtype, xp=xp)


def channel_entries(shape: Sequence[int]) -> int:
    """Number of entries of `channel(shape)`: a box of 27 points without its centre and its eight corners.

    >>> import mansard as ms
    >>> ms.sparse.matrices.channel_entries((3, 3, 3))
    252
    """
    box, corners, rows = 1, 8, 1
    for extent in checked_shape(shape):
        box, corners, rows = box * (3 * extent - 2), corners * (extent - 1), rows * extent
    return box - corners - rows


def delaunay(count: int, *, seed: int = 0, dtype: Any = np.float64, xp: Any = np) -> SparseMatrix:
    """Adjacency of a Delaunay triangulation of `count` random points in the unit square: 6 entries a row on average.

    Points are in random order. The matrix is formed on the host.

    >>> import mansard as ms
    >>> A = ms.sparse.matrices.delaunay(100)
    >>> A.shape, abs(A - A.T).sum() == 0
    ((100, 100), np.True_)
    """
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
) -> SparseMatrix:  # fmt: skip
    """Adjacency of a Kronecker (R-MAT) graph of 2^scale vertices, from edge_factor * 2^scale random edges.

    Edges are entered both ways and once; loops are dropped. A few rows hold most entries, and no reordering groups
    them into levels or blocks.

    >>> import mansard as ms
    >>> A = ms.sparse.matrices.kronecker(6, edge_factor=4)
    >>> A.shape, A.diagonal().any(), A.nnz <= 2 * 4 * 64
    ((64, 64), np.False_, True)
    """
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


def roads(side: int, *, keep: float = 0.75, seed: int = 0, dtype: Any = np.float64, xp: Any = np) -> SparseMatrix:
    """Adjacency of a synthetic road network: about 2.25 entries a row.

    A share `keep` of the edges of a side x side grid stays; two more vertices cut each edge in three; the largest
    connected part is returned. The matrix is formed on the host.

    >>> import mansard as ms
    >>> A = ms.sparse.matrices.roads(20)
    >>> bool(2 < A.nnz / A.shape[0] < 2.5)
    True
    """
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


def adjacency(xp: Any, rows: Any, columns: Any, count: int, dtype: Any) -> SparseMatrix:
    """The symmetric adjacency matrix of the edges (rows[i], columns[i]) of `count` vertices; repeated edges count once.

    >>> import numpy as np, mansard as ms
    >>> ms.sparse.matrices.adjacency(np, np.array([0, 1, 0]), np.array([1, 2, 1]), 3, float).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    low, high = xp.minimum(rows, columns), xp.maximum(rows, columns)
    edges = xp.unique(low.astype(np.int64) * count + high)
    low, high = edges // count, edges % count
    keys = xp.sort(xp.concatenate([edges, high * count + low]))
    index = index_type(count, len(keys))
    indptr = xp.searchsorted(keys, xp.arange(count + 1, dtype=np.int64) * count).astype(index)
    return csr(xp, xp.ones(len(keys), dtype), (keys % count).astype(index), indptr, count)
