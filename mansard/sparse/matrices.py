"""Sparse matrices for tests and benchmarks, by definition instead of download.

Every function returns a square CSR matrix with ascending columns: a `scipy.sparse.csr_array`, or with `xp=cupy` one of
cupyx.scipy.sparse, which is formed on the GPU unless the function says otherwise. The first axis of a grid is adjacent
in memory. Random numbers depend on `seed` alone, not on the device. Functions whose names end in `_entries` return the
number of entries without forming the matrix: 12 bytes each in float64 CSR with 32-bit columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..arrays.types import Array, SparseMatrix
from .matrices_elasticity import elasticity, elasticity_entries
from .matrices_graphs import adjacency, channel, channel_entries, delaunay, kronecker, roads
from .matrices_grid import checked_shape, grid, uniform
from .matrices_physics import (
    anderson,
    graphene,
    graphene_entries,
    spin_chain,
    spin_chain_entries,
    topological_insulator,
    topological_insulator_entries,
)

__all__ = [
    "adjacency",
    "anderson",
    "band",
    "band_entries",
    "channel",
    "channel_entries",
    "convection_diffusion",
    "delaunay",
    "elasticity",
    "elasticity_entries",
    "graphene",
    "graphene_entries",
    "hpcg",
    "kronecker",
    "randomized",
    "roads",
    "spin_chain",
    "spin_chain_entries",
    "stencil",
    "stencil_entries",
    "topological_insulator",
    "topological_insulator_entries",
]

# points: axes, steps along one axis, steps in all
_STENCILS = {3: (1, 1, 1), 5: (2, 1, 1), 7: (3, 1, 1), 9: (2, 1, 2), 27: (3, 1, 3), 125: (3, 2, 6)}


def band(rows: int, width: int, *, dtype: Any = np.float64, xp: Any = np) -> SparseMatrix:
    """A banded matrix: width - 1 on the diagonal, -1 where 0 < abs(i - j) <= (width - 1) / 2; `width` is odd.

    >>> import mansard as ms
    >>> ms.sparse.matrices.band(4, 3).toarray()
    array([[ 2., -1.,  0.,  0.],
           [-1.,  2., -1.,  0.],
           [ 0., -1.,  2., -1.],
           [ 0.,  0., -1.,  2.]])
    """
    half = _half(width)
    steps = range(-half, half + 1)
    values = [-1.0 if step else width - 1.0 for step in steps]
    return grid((rows,), [[step] for step in steps], values, dtype=dtype, xp=xp)


def band_entries(rows: int, width: int) -> int:
    """Number of entries of `band(rows, width)`.

    >>> import mansard as ms
    >>> ms.sparse.matrices.band_entries(4, 3)
    10
    """
    half = min(_half(width), rows - 1)
    return (2 * half + 1) * rows - half * (half + 1)


def stencil(
    points: int, shape: Sequence[int], *, periodic: bool = False, dtype: Any = np.float64, xp: Any = np
) -> SparseMatrix:
    """The matrix of a stencil on a grid: points - 1 on the diagonal, -1 for every neighbour.

    3, 5 and 7 points are crosses on a line, a plane and a box; 9, 27 and 125 are full squares and cubes, 125 with two
    steps along every axis.

    >>> import mansard as ms
    >>> ms.sparse.matrices.stencil(5, (2, 2)).toarray()
    array([[ 4., -1., -1.,  0.],
           [-1.,  4.,  0., -1.],
           [-1.,  0.,  4., -1.],
           [ 0., -1., -1.,  4.]])
    """
    offsets = _offsets(points, shape)
    values = [-1.0 if any(step) else points - 1.0 for step in offsets]
    return grid(shape, offsets, values, periodic=periodic, dtype=dtype, xp=xp)


def stencil_entries(points: int, shape: Sequence[int]) -> int:
    """Number of entries of `stencil(points, shape)` with open boundaries.

    >>> import mansard as ms
    >>> ms.sparse.matrices.stencil_entries(5, (2, 2))
    12
    """
    return sum(
        prod(max(0, extent - abs(s)) for extent, s in zip(shape, step, strict=True)) for step in _offsets(points, shape)
    )


def hpcg(shape: Sequence[int], *, dtype: Any = np.float64, xp: Any = np) -> tuple[SparseMatrix, Array, Array]:
    """The HPCG benchmark's system: the matrix (27 points, 26 and -1), the right-hand side, and the solution (ones).

    >>> import mansard as ms
    >>> A, b, x = ms.sparse.matrices.hpcg((3, 3, 3))
    >>> bool((A @ x == b).all())
    True
    """
    A = stencil(27, shape, dtype=dtype, xp=xp)
    b = (27 - (A.indptr[1:] - A.indptr[:-1])).astype(dtype)
    return A, b, xp.ones(A.shape[0], dtype)


def convection_diffusion(
    shape: Sequence[int], peclet: float = 0.5, *, dtype: Any = np.float64, xp: Any = np
) -> SparseMatrix:
    """Central differences for diffusion with a wind along all axes: -1 - peclet upwind, -1 + peclet downwind.

    The matrix is not symmetric. Its eigenvalues are real for peclet < 1, complex beyond.

    >>> import mansard as ms
    >>> ms.sparse.matrices.convection_diffusion((3,), peclet=0.5).toarray()
    array([[ 2. , -0.5,  0. ],
           [-1.5,  2. , -0.5],
           [ 0. , -1.5,  2. ]])
    """
    axes = len(shape)
    eye = np.eye(axes, dtype=int)
    offsets = np.concatenate([np.zeros((1, axes), int), eye, -eye])
    values = [2.0 * axes, *[-1 + peclet] * axes, *[-1 - peclet] * axes]
    return grid(shape, offsets, values, dtype=dtype, xp=xp)


def randomized(A: SparseMatrix, seed: int = 0) -> SparseMatrix:
    """A copy of A with random values, whose powers neither grow nor vanish fast.

    Values are uniform in [-1, 1), divided by the square root of the mean row length; complex ones in both parts.

    >>> import mansard as ms
    >>> A = ms.sparse.matrices.band(100, 5)
    >>> B = ms.sparse.matrices.randomized(A)
    >>> bool((B.indices == A.indices).all()), bool(abs(B.data).max() < 0.46)
    (True, True)
    """
    xp = np if isinstance(A.data, np.ndarray) else __import__("cupy")
    scale = 1 / np.sqrt(max(1.0, A.nnz / max(1, A.shape[0])))
    values = scale * (2 * uniform(xp, A.nnz, seed) - 1)
    if A.dtype.kind == "c":
        values = values + 1j * scale * (2 * uniform(xp, A.nnz, seed + 1) - 1)
    B = A.copy()
    B.data = values.astype(A.dtype)
    return B


def _half(width: int) -> int:
    if width < 1 or width % 2 == 0:
        raise ValueError(f"width={width}: a band has an odd number of diagonals")
    return width // 2


def _offsets(points: int, shape: Sequence[int]) -> list[tuple[int, ...]]:
    if points not in _STENCILS:
        raise ValueError(f"points={points} is not one of {sorted(_STENCILS)}")
    axes, reach, steps = _STENCILS[points]
    if len(checked_shape(shape)) != axes:
        raise ValueError(f"shape {tuple(shape)}: a stencil of {points} points has {axes} dimensions")
    return [step for step in product(range(-reach, reach + 1), repeat=axes) if sum(map(abs, step)) <= steps]
