"""Factorizations by the array library (cuSOLVER and cuBLAS behind CuPy and PyTorch), for arrays on GPUs. Nothing here
waits for the device."""

from __future__ import annotations

import numpy as np

from ...arrays.types import Array, Kind, Linalg
from .task import Found, Task


def answer(kind: Kind, task: Task, A: Array, B: Array = None) -> Found:
    """The parts of the task's result for a stack A (..., m, n) and right-hand sides B with the same leading dimensions;
    no size is zero."""
    if task.family == "qr":
        return _qr(kind, task, A, B)
    by = kind.linalg
    if task.family == "cholesky":
        return _cholesky(kind, task, by, A, B)
    if task.want == "solve":
        X, info = by.solve(A, B, task.pivot)
        return {"X": X, "INFO": info}
    if task.want == "inverse":
        F, info = by.inverse(A, task.pivot)
        return {"F": F, "INFO": info}
    F, pivots, info = by.lu(A, task.pivot)
    if task.want == "factor":
        return {"F": F, "PIVOTS": pivots, "INFO": info}
    return determinants(kind, task, {"F": F, "PIVOTS": pivots, "INFO": info})


def _cholesky(kind: Kind, task: Task, by: Linalg, A: Array, B: Array) -> Found:
    if task.want == "factor":
        factor, info = by.cholesky(A, task.upper)
        return {"F": factor, "INFO": info}
    lower = kind.conj(A.swapaxes(-1, -2)) if task.upper else A
    X, info = by.solve_positive(lower, B)
    return {"X": X, "INFO": info}


def determinants(kind: Kind, task: Task, made: Found) -> Found:
    """From the factors: products of diagonals, and whether the number of exchanges is odd. Singular matrices are those
    that `info` says: some libraries leave NaN behind a pivot that is zero."""
    F, pivots, info = (made[part] for part in ("F", "PIVOTS", "INFO"))
    module = kind.module
    odd = (pivots != kind.arange(pivots.shape[-1], pivots)).sum(-1) % 2
    diagonal = F.diagonal(0, -2, -1)
    diagonal = module.where((info > 0)[..., None], module.zeros_like(diagonal), diagonal)
    sign = 1 - 2 * kind.astype(odd, diagonal.dtype)
    if task.want == "determinant":
        return {"F": diagonal.prod(-1) * sign}
    size = abs(diagonal)
    phase = diagonal / module.where(size == 0, module.ones_like(size), size)  # NaN stays NaN
    with np.errstate(divide="ignore"):  # of NumPy arrays: minus infinity is the answer for singular matrices
        return {"F": phase.prod(-1) * sign, "X": module.log(size).sum(-1)}


def _qr(kind: Kind, task: Task, A: Array, B: Array) -> Found:
    if task.want == "raw":
        F, tau = kind.linalg.geqrf(A)
        return {"F": F, "TAU": tau}
    Q, R = kind.linalg.qr(A, task.want if task.want in ("r", "complete") else "reduced")
    if task.want == "r":
        return {"F": R}
    if task.want != "solve":
        return {"Q": Q, "F": R}
    right = kind.matmul(kind.conj(Q).swapaxes(-1, -2), B)
    return {"X": kind.linalg.solve_triangular(R, right, lower=False)}
