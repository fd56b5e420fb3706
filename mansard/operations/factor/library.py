"""Factorizations by the array library (cuSOLVER and cuBLAS behind CuPy and PyTorch), for arrays on GPUs. Nothing here
waits for the device."""

from __future__ import annotations

import numpy as np

from ...arrays.types import Array, Kind, Linalg
from .task import Found, Task, identity


def answer(kind: Kind, task: Task, A: Array, B: Array = None) -> Found:
    """The parts of the task's result for a stack A (..., m, n) and right-hand sides B with the same leading dimensions;
    no size is zero."""
    if task.family == "qr":
        return _qr(kind, task, A, B)
    by = kind.linalg
    if task.family == "cholesky":
        factor, info = by.cholesky(A, task.upper)
        if task.want == "factor":
            return {"F": factor, "INFO": info}
        return {"X": _substitute(kind, by, factor, not task.upper, B), "INFO": info}
    return _lu(kind, task, by, A, B)


def _lu(kind: Kind, task: Task, by: Linalg, A: Array, B: Array) -> Found:
    F, pivots, info = by.lu(A, task.pivot)
    if task.want == "factor":
        return {"F": F, "PIVOTS": pivots, "INFO": info}
    if task.want == "solve":
        return {"X": by.lu_solve(F, pivots, B), "INFO": info}
    if task.want == "inverse":
        dtype = kind.view(A, "a").dtype
        return {"F": by.lu_solve(F, pivots, identity(kind, tuple(A.shape), dtype, A)), "INFO": info}
    return determinants(kind, task, F, pivots)


def determinants(kind: Kind, task: Task, F: Array, pivots: Array) -> Found:
    """From the factors: products of diagonals, and whether the number of exchanges is odd."""
    module = kind.module
    odd = (pivots != kind.arange(pivots.shape[-1], pivots)).sum(-1) % 2
    diagonal = F.diagonal(0, -2, -1)
    sign = 1 - 2 * kind.astype(odd, diagonal.dtype)
    if task.want == "determinant":
        return {"F": diagonal.prod(-1) * sign}
    size = abs(diagonal)
    phase = diagonal / module.where(size == 0, module.ones_like(size), size)  # NaN stays NaN
    with np.errstate(divide="ignore"):  # of NumPy arrays: minus infinity is the answer for singular matrices
        return {"F": phase.prod(-1) * sign, "X": module.log(size).sum(-1)}


def _substitute(kind: Kind, by: Linalg, factor: Array, lower: bool, B: Array) -> Array:
    """L L^H X = B, or U^H U X = B."""
    turned = kind.conj(factor).swapaxes(-1, -2)
    first, second = (factor, turned) if lower else (turned, factor)
    return by.solve_triangular(second, by.solve_triangular(first, B, lower=True), lower=False)


def _qr(kind: Kind, task: Task, A: Array, B: Array) -> Found:
    module = kind.module
    if task.want == "raw":
        F, tau = kind.linalg.geqrf(A)
        return {"F": F, "TAU": tau}
    if task.want == "r":
        R = module.linalg.qr(A, mode="r")
        return {"F": R[1] if isinstance(R, tuple) else R}
    Q, R = module.linalg.qr(A, mode="complete" if task.want == "complete" else "reduced")
    if task.want != "solve":
        return {"Q": Q, "F": R}
    right = kind.matmul(kind.conj(Q).swapaxes(-1, -2), B)
    return {"X": kind.linalg.solve_triangular(R, right, lower=False)}


