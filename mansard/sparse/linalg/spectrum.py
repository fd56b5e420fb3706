"""Bounds of the spectrum of a matrix, from its rows, or from a few steps of Lanczos' method."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..matrices_grid import uniform
from .report import Report


def probe(xp: Any, count: int, dtype: Any, seed: int) -> Any:
    """A vector of norm one without structure."""
    vector = (2 * uniform(xp, count, seed) - 1).astype(np.dtype(dtype).type(0).real.dtype)
    if np.dtype(dtype).kind == "c":
        vector = vector + 1j * (2 * uniform(xp, count, seed + 1) - 1).astype(vector.dtype)
    return vector / xp.linalg.norm(vector)


def is_hermitian(A: Any, xp: Any, run: Report) -> bool:
    """Whether A acts like its adjoint between two random vectors; two products instead of a transposition."""
    dtype = np.result_type(A.dtype, np.float32)
    u, v = (probe(xp, A.shape[0], dtype, seed) for seed in (11, 23))
    Au, Av = A @ u, A @ v
    run.products, run.passes = run.products + 2, run.passes + 2
    size = float(xp.linalg.norm(Au) * xp.linalg.norm(v) + xp.linalg.norm(Av) * xp.linalg.norm(u))
    return bool(abs(complex(u.conj() @ Av - (v.conj() @ Au).conjugate())) <= 64 * np.finfo(dtype).eps * size)


def gershgorin(A: Any) -> tuple[float, float]:
    """An interval that holds the real parts of all eigenvalues, and their whole if A is Hermitian (CSR matrices)."""
    if not A.nnz:
        return 0.0, 0.0
    diagonal = A.diagonal().real
    radius = abs(A).sum(axis=1).ravel() - abs(A.diagonal())
    radius = radius.A1 if hasattr(radius, "A1") else radius
    return float((diagonal - radius).min()), float((diagonal + radius).max())


def lanczos(A: Any, xp: Any, run: Report, steps: int = 24) -> tuple[float, float]:
    """An interval that holds the eigenvalues of a Hermitian matrix, all but certainly: extreme Ritz values, and the
    last residual on either side."""
    n = A.shape[0]
    v = probe(xp, n, A.dtype, 5)
    before, beta = v * 0, 0.0
    alphas: list[float] = []
    betas: list[float] = []
    for _ in range(min(steps, n)):
        w = A @ v - beta * before
        alphas.append(float((v.conj() @ w).real))
        w = w - alphas[-1] * v
        beta = float(xp.linalg.norm(w))
        betas.append(beta)
        if beta <= 1e-12 * (abs(alphas[-1]) + beta):
            break
        before, v = v, w / beta
    run.products, run.passes = run.products + len(alphas), run.passes + len(alphas)
    T = np.diag(alphas) + np.diag(betas[:-1], 1) + np.diag(betas[:-1], -1)
    ritz = np.linalg.eigvalsh(T)
    return float(ritz[0] - betas[-1]), float(ritz[-1] + betas[-1])
