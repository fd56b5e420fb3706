"""Operands, peers and errors of declared operations that solve or orthogonalize."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np

from ...plan.problem import REAL

PART = 1 << 26  # elements that are worked on at once
_COLUMNS = 1e-14  # of max |Q^H Q - I| per column in double precision, as for Cholesky QR
_RESIDUAL = 1000.0  # roundings of V - Q R - against H


def dominant(xp: Any, A: Any) -> Any:
    """A / n with 2 added to the diagonal: solutions neither grow nor vanish."""
    size = A.shape[-1]
    A, every = A / xp.asarray(size, A.dtype), list(range(size))
    A[:, every, every] += 2
    return A


def positive(xp: Any, G: Any) -> Any:
    """G G^H + n I, some matrices at a time: products need room."""
    made, n = xp.empty(G.shape, G.dtype), G.shape[-1]
    every, step = list(range(n)), max(1, PART // (n * n))
    for start in range(0, len(G), step):
        some = G[start : start + step]
        part = made[start : start + step]
        part[...] = xp.matmul(some, some.conj().swapaxes(-1, -2))
        part[:, every, every] += n
    return made


def lapack_pivots(torch: Any, A: tuple[Any, Any], B: Any) -> tuple[Any, Any]:
    """Factors with pivots from 1, as LAPACK and PyTorch count."""
    return (A[0], (A[1] + 1).to(torch.int32)), B


def not_orthogonal(V: Any, against: Any, result: tuple[Any, ...]) -> float:
    """How far Q, R and H are from V = Q R + against H with orthonormal [against, Q], in units of what is allowed."""
    Q, R, H = result
    eps = float(np.finfo(REAL[V.dtype.name]).eps)
    allowed = (against.shape[1] + V.shape[1]) * _COLUMNS * eps / float(np.finfo("float64").eps)
    gram = Q.conj().T @ Q
    gram.reshape(-1)[:: len(gram) + 1] -= 1
    departure = max(float(abs(gram).max()), float(abs(against.conj().T @ Q).max()))
    left = float(abs(V - Q @ R - against @ H).max() / abs(V).max())
    worst = max(departure / allowed, left / (_RESIDUAL * eps))
    return float("inf") if isnan(worst) else worst
