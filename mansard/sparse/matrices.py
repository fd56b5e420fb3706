"""Sparse matrices for tests and benchmarks, by definition instead of download.

Every function returns a square CSR matrix with ascending columns, of scipy.sparse or, with xp=cupy, of
cupyx.scipy.sparse (formed on the GPU unless it says otherwise). The first extent of a shape is adjacent in memory.
Random numbers depend on `seed` alone, not on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

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

_STENCILS = {3: (1, 1), 5: (2, 1), 7: (3, 1), 9: (2, 2), 27: (3, 3)}  # points: axes, steps in all


def band(rows: int, width: int, *, dtype: Any = np.float64, xp: Any = np) -> Any:
    """Entries where abs(i - j) <= (width - 1) / 2: width - 1 on the diagonal, -1 elsewhere."""
    half = _half(width)
    steps = range(-half, half + 1)
    values = [-1.0 if step else width - 1.0 for step in steps]
    return grid((rows,), [[step] for step in steps], values, dtype=dtype, xp=xp)


def band_entries(rows: int, width: int) -> int:
    """Entries of `band`."""
    half = min(_half(width), rows - 1)
    return (2 * half + 1) * rows - half * (half + 1)


def stencil(points: int, shape: Sequence[int], *, periodic: bool = False, dtype: Any = np.float64, xp: Any = np) -> Any:
    """A stencil of 3, 5, 7 (cross), 9 or 27 (box) points: points - 1 on the diagonal, -1 elsewhere."""
    offsets = _offsets(points, shape)
    values = [-1.0 if any(step) else points - 1.0 for step in offsets]
    return grid(shape, offsets, values, periodic=periodic, dtype=dtype, xp=xp)


def stencil_entries(points: int, shape: Sequence[int]) -> int:
    """Entries of `stencil` with open boundaries."""
    return sum(
        prod(max(0, extent - abs(s)) for extent, s in zip(shape, step, strict=True)) for step in _offsets(points, shape)
    )


def hpcg(shape: Sequence[int], *, dtype: Any = np.float64, xp: Any = np) -> tuple[Any, Any, Any]:
    """The problem of the HPCG benchmark: matrix (27 points, 26 and -1), right-hand side, and solution (ones)."""
    A = stencil(27, shape, dtype=dtype, xp=xp)
    b = (27 - (A.indptr[1:] - A.indptr[:-1])).astype(dtype)
    return A, b, xp.ones(A.shape[0], dtype)


def convection_diffusion(shape: Sequence[int], peclet: float = 0.5, *, dtype: Any = np.float64, xp: Any = np) -> Any:
    """Central differences for diffusion with a wind along all axes: -1 - peclet against it, -1 + peclet along it.
    Unsymmetric; eigenvalues are real for peclet < 1, complex beyond."""
    axes = len(shape)
    eye = np.eye(axes, dtype=int)
    offsets = np.concatenate([np.zeros((1, axes), int), eye, -eye])
    values = [2.0 * axes, *[-1 + peclet] * axes, *[-1 - peclet] * axes]
    return grid(shape, offsets, values, dtype=dtype, xp=xp)


def randomized(A: Any, seed: int = 0) -> Any:
    """The same pattern with values uniform in [-1, 1) over the root of the mean row length, complex ones in both parts:
    powers neither grow nor vanish fast."""
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
    axes, steps = _STENCILS[points]
    if len(checked_shape(shape)) != axes:
        raise ValueError(f"shape {tuple(shape)}: a stencil of {points} points has {axes} dimensions")
    return [step for step in product((-1, 0, 1), repeat=axes) if sum(map(abs, step)) <= steps]
