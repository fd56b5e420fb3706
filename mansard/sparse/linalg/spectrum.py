"""Bounds of the spectrum of a matrix, from its rows, or from a few steps of Lanczos' method."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..matrices_grid import uniform
from .report import Report
from .space import WHOLE, Space, absolute_row_sums, space_of


def probe(xp: Any, own: slice, dtype: Any, seed: int, space: Space = WHOLE) -> Any:
    """The entries `own` of a vector of norm one without structure."""
    count, real = own.stop - own.start, np.dtype(dtype).type(0).real.dtype
    vector = (2 * uniform(xp, count, seed, own.start) - 1).astype(real)
    if np.dtype(dtype).kind == "c":
        vector = vector + 1j * (2 * uniform(xp, count, seed + 1, own.start) - 1).astype(real)
    return vector / vector.dtype.type(space.norm(vector))


def is_hermitian(A: Any, xp: Any, run: Report) -> bool:
    """Whether A acts like its adjoint between two random vectors; two products instead of a transposition."""
    dtype, space = np.result_type(A.dtype, np.float32), space_of(A)
    u, v = (probe(xp, space.entries(A), dtype, seed, space) for seed in (11, 23))
    Au, Av = A @ u, A @ v
    run.products, run.passes = run.products + 2, run.passes + 2
    size = space.norm(Au) * space.norm(v) + space.norm(Av) * space.norm(u)
    return bool(abs(space.dot(u, Av) - space.dot(v, Au).conjugate()) <= 64 * np.finfo(dtype).eps * size)


def gershgorin(A: Any) -> tuple[float, float]:
    """An interval that holds the real parts of all eigenvalues, and their whole if A is Hermitian (CSR matrices)."""
    if not A.nnz:
        return 0.0, 0.0
    diagonal, space = A.diagonal(), space_of(A)
    radius = absolute_row_sums(A) - abs(diagonal)
    low, high = diagonal.real - radius, diagonal.real + radius
    lowest, highest = (float(low.min()), float(high.max())) if len(low) else (np.inf, -np.inf)
    return -space.largest(-lowest), space.largest(highest)


def lanczos(A: Any, xp: Any, run: Report, steps: int = 24) -> tuple[float, float]:
    """An interval that holds the eigenvalues of a Hermitian matrix, all but certainly: extreme Ritz values, and the
    last residual on either side."""
    n, space = A.shape[0], space_of(A)
    v = probe(xp, space.entries(A), A.dtype, 5, space)
    before, beta = v * 0, 0.0
    alphas: list[float] = []
    betas: list[float] = []
    for _ in range(min(steps, n)):
        w = A @ v - beta * before
        alphas.append(space.dot(v, w).real)
        w = w - alphas[-1] * v
        beta = space.norm(w)
        betas.append(beta)
        if beta <= 1e-12 * (abs(alphas[-1]) + beta):
            break
        before, v = v, w / beta
    run.products, run.passes = run.products + len(alphas), run.passes + len(alphas)
    T = np.diag(alphas) + np.diag(betas[:-1], 1) + np.diag(betas[:-1], -1)
    ritz = np.linalg.eigvalsh(T)
    return float(ritz[0] - betas[-1]), float(ritz[-1] + betas[-1])
