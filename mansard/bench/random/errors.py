"""Errors of drawn problems' results in units of what is allowed: at most 1 is right.

Of batches, functions get some matrices on the host, stacked, operands and results in double precision; of tall matrices
the arrays themselves. Bounds are those of the other benchmarks: of sums of products entry by entry, LAPACK's test
ratios for factors, residuals for systems.
"""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np

from ...plan.problem import REAL
from ...testing import gamma
from .. import references
from .problem import Drawn

_RATIO = 30.0  # LAPACK's threshold of its test ratios
_SLACK = 1.01  # of entries of L, which pivoting keeps below one


def gram(drawn: Drawn, A: Any, B: Any, C: Any) -> float:
    return references.Reference(A, B).error(C)


def product(drawn: Drawn, A: Any, B: Any, C: Any) -> float:
    return references.SmallReference(A, B).error(C)


def matmul_gram(drawn: Drawn, V: Any, S: Any, results: Any) -> float:
    return references.FusedReference(V, S).error(results)


def project(drawn: Drawn, V: Any, W: Any, results: Any) -> float:
    return references.ProjectedReference(V, W).error(results)


def cholesky_qr(drawn: Drawn, V: Any, B: Any, results: Any) -> float:
    return references.QrReference(V).error(results)


# ---- batches ----------------------------------------------------------------------------------------------


def stacked(drawn: Drawn, A: Any, B: Any, C: Any) -> float:
    return _sums(drawn, _op(A, drawn.options.get("trans_a", "N")), _op(B, drawn.options.get("trans_b", "N")), C)


def vectors(drawn: Drawn, A: Any, x: Any, y: Any) -> float:
    return _sums(drawn, _op(A, drawn.options["trans"]), x[..., None], y[..., None])


def rank_k(drawn: Drawn, A: Any, B: Any, C: Any) -> float:
    """The triangle that is asked for, and all of it where the result is made anew."""
    other = "T" if drawn.operation == "syrk" else "C"
    left, right = (A, _op(A, other)) if drawn.options["trans"] == "N" else (_op(A, other), A)
    part = np.tril if drawn.options["uplo"] == "L" else np.triu
    if drawn.result is None:
        return _sums(drawn, left, right, C)
    bound = part(_allowed(drawn, left, right)) + np.finfo(REAL[drawn.dtype]).tiny
    return _largest(abs(part(C) - part(left @ right)) / bound)


def triangular_product(drawn: Drawn, A: Any, B: Any, C: Any) -> float:
    A = _op(A, drawn.options["trans"])
    return _sums(drawn, *((A, B) if drawn.options["side"] == "L" else (B, A)), C)


def triangular(drawn: Drawn, A: Any, B: Any, X: Any) -> float:
    """|B - A X| <= gamma |A| |X|, in whichever order the substitution goes."""
    A = _op(A, drawn.options["trans"])
    if "side" not in drawn.options:
        B, X = B[..., None], X[..., None]
    elif drawn.options["side"] == "R":
        A, B, X = (one.swapaxes(-1, -2) for one in (A, B, X))
    bound = 2 * gamma(drawn.dtype, A.shape[-1]) * (abs(A) @ abs(X)) + np.finfo(REAL[drawn.dtype]).tiny
    return _largest(abs(B - A @ X) / bound)


def cholesky(drawn: Drawn, A: Any, B: Any, F: Any) -> float:
    L = np.tril(F)
    if bool((L.diagonal(0, -2, -1).real <= 0).any()):
        return float("inf")
    return _ratio(drawn, A - L @ _op(L, "C"), A)


def lu(drawn: Drawn, A: Any, B: Any, found: Any) -> float:
    """P A - L U, and multipliers below one; PyTorch counts pivots from 1, and so its smallest last one is n."""
    F, pivots = found[:2]
    n = A.shape[-1]
    pivots = pivots.real.astype(np.int64)
    pivots = pivots - int(pivots[..., -1].min() == n)
    if bool(((pivots < 0) | (pivots >= n)).any()):
        return float("inf")
    L, U, A = np.tril(F, -1) + np.eye(n), np.triu(F), A.copy()
    every = np.arange(len(A))
    for k in range(n):
        chosen = pivots[:, k]
        A[every, chosen], A[:, k] = A[:, k].copy(), A[every, chosen].copy()
    most = 2**0.5 if A.dtype.kind == "c" else 1.0
    if bool((abs(L) > most * _SLACK).any()):
        return float("inf")
    return _ratio(drawn, A - L @ U, A)


def qr(drawn: Drawn, A: Any, B: Any, found: Any) -> float:
    """Q R against A and Q^H Q; of R alone R^H R against A^H A."""
    if drawn.options["mode"] == "r":
        R = found
        lower = abs(np.tril(R, -1)).max() if R.size else 0.0
        return max(_ratio(drawn, _op(A, "C") @ A - _op(R, "C") @ R, A, A), float("inf") if lower else 0.0)
    Q, R = found
    return max(_ratio(drawn, A - Q @ np.triu(R), A), _orthonormal(drawn, Q))


def solve(drawn: Drawn, A: Any, B: Any, X: Any) -> float:
    return _ratio(drawn, B - A @ X, A, X)


def cholesky_solve(drawn: Drawn, A: Any, B: Any, X: Any) -> float:
    L = np.tril(A[0])
    return solve(drawn, L @ _op(L, "C"), B, X)


def lu_solve(drawn: Drawn, A: Any, B: Any, X: Any) -> float:
    LU, pivots = A[0], A[1].real.astype(np.int64)
    n = LU.shape[-1]
    right, every = B.copy(), np.arange(len(B))
    for k in range(n):
        right[every, pivots[:, k]], right[:, k] = right[:, k].copy(), right[every, pivots[:, k]].copy()
    return solve(drawn, (np.tril(LU, -1) + np.eye(n)) @ np.triu(LU), right, X)


def inverse(drawn: Drawn, A: Any, B: Any, X: Any) -> float:
    return _ratio(drawn, np.eye(A.shape[-1]) - A @ X, A, X)


def determinant(drawn: Drawn, A: Any, B: Any, found: Any) -> float:
    exact = np.linalg.det(A)
    return _largest(abs(found - exact) / (_RATIO * _unit(drawn, A) * abs(exact) * _condition(A)))


def log_determinant(drawn: Drawn, A: Any, B: Any, found: Any) -> float:
    """Sign, and logarithm of the magnitude, whose error is the determinant's relative one."""
    sign, exact = np.linalg.slogdet(A)
    room = _RATIO * _unit(drawn, A) * (_condition(A) + abs(exact))
    return max(_largest(abs(found[0] - sign) / room), _largest(abs(found[1] - exact) / room))


def least_squares(drawn: Drawn, A: Any, B: Any, found: Any) -> float:
    """A^H (B - A X) vanishes."""
    left = _op(A, "C") @ (B - A @ found)
    room = _RATIO * _unit(drawn, A) * _norm(A) * (_norm(A) * _norm(found) + _norm(B))
    return _largest(_norm(left) / room)


def eigen(drawn: Drawn, A: Any, B: Any, found: Any) -> float:
    W, Z = found
    return max(_ratio(drawn, A - (Z * W[..., None, :]) @ _op(Z, "C"), A), _orthonormal(drawn, Z))


def eigenvalues(drawn: Drawn, A: Any, B: Any, W: Any) -> float:
    return _values(drawn, A, W, np.linalg.eigvalsh(A))


def singular(drawn: Drawn, A: Any, B: Any, found: Any) -> float:
    U, W, VH = found
    ratio = _ratio(drawn, A - (U * W[..., None, :]) @ VH, A)
    return max(ratio, _orthonormal(drawn, U), _orthonormal(drawn, _op(VH, "C")))


def singular_values(drawn: Drawn, A: Any, B: Any, W: Any) -> float:
    return _values(drawn, A, W, np.linalg.svd(A, compute_uv=False))


def ragged(drawn: Drawn, A: list[Any], B: list[Any] | None, found: list[Any]) -> float:
    """The largest error of matrices of different sizes."""
    of = {"ragged-matmul": stacked, "ragged-cholesky": cholesky, "ragged-solve": solve}[drawn.operation]
    others = B or [None] * len(A)
    return max(of(drawn, a[None], None if b is None else b[None], one[None])
               for a, b, one in zip(A, others, found, strict=True))  # fmt: skip


# ---- bounds -----------------------------------------------------------------------------------------------


def _op(matrix: Any, trans: str) -> Any:
    turned = matrix if trans == "N" else matrix.swapaxes(-1, -2)
    return turned.conj() if trans == "C" else turned


def _allowed(drawn: Drawn, left: Any, right: Any) -> Any:
    return 2 * gamma(drawn.dtype, left.shape[-1]) * (abs(left) @ abs(right))


def _sums(drawn: Drawn, left: Any, right: Any, C: Any) -> float:
    exact = left @ right
    if C.shape != exact.shape:
        return float("inf")
    return _largest(abs(C - exact) / (_allowed(drawn, left, right) + np.finfo(REAL[drawn.dtype]).tiny))


def _unit(drawn: Drawn, A: Any) -> float:
    return float(max(A.shape[-2:]) * np.finfo(REAL[drawn.dtype]).eps)


def _norm(X: Any) -> Any:
    """The largest sum of a column's magnitudes, of every matrix."""
    return abs(X).sum(-2).max(-1)


def _condition(A: Any) -> Any:
    return _norm(A) * _norm(np.linalg.inv(A))


def _ratio(drawn: Drawn, residual: Any, *factors: Any) -> float:
    """A residual over eps, the longer side, and the norms of what was multiplied, in units of LAPACK's threshold."""
    room = _RATIO * _unit(drawn, factors[0]) + np.zeros(len(residual))
    for one in factors:
        room = room * _norm(one)
    return _largest(_norm(residual) / np.maximum(room, np.finfo(REAL[drawn.dtype]).tiny))


def _orthonormal(drawn: Drawn, Q: Any) -> float:
    return _largest(_norm(_op(Q, "C") @ Q - np.eye(Q.shape[-1])) / (_RATIO * _unit(drawn, Q)))


def _values(drawn: Drawn, A: Any, found: Any, exact: Any) -> float:
    if found.shape != exact.shape:
        return float("inf")
    scale = np.maximum(abs(exact).max(-1), np.finfo(REAL[drawn.dtype]).tiny)
    return _largest(abs(found - exact).max(-1) / (_RATIO * _unit(drawn, A) * scale))


def _largest(ratios: Any) -> float:
    worst = float(np.max(ratios)) if np.size(ratios) else 0.0
    return float("inf") if isnan(worst) else worst
