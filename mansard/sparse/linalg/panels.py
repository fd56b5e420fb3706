"""Orthonormalisation of a few long vectors beside a basis, with one wait for the device.

Block Gram-Schmidt where the norms after the second projection are inferred from the first (Pythagoras). Vectors are
rows: the basis Q, the new vectors V.

    S = Q^H V,  U = V - Q S              nothing is read by the host yet
    T = Q^H U,  G = U^H U                the host waits for S, T and G
    R^H R = G - T^H T                    Cholesky factorization of a small matrix
    new = (U - Q T) R^-1,  V = Q (S + T) + new R

What rounding leaves of new^H new - I grows as the square of the condition number of U. Up to eps^(-1/4) that is
accepted; above, `new` is orthonormalised again. Vectors that are all but dependent are left to slower steps.

The basis is padded with zero rows to a multiple of `PAD`, so that few kernels serve a basis that grows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...operations.sparse.storage import array_module, host
from ...operations.tall_skinny.gram import gram
from ...operations.tall_skinny.matmul import matmul

PAD = 8  # rows of the basis

_KEPT = 0.5  # of U's squared norm that the second projection leaves at least: less, and the difference has lost digits
_DEPENDENT = 0.05  # of the condition number at which a Gram matrix is singular to working precision

Found = tuple[Any, Any, Any, Any]  # (new, R, C, dependent) with V = C^T Q + R^T new; R and C on the host


def padded(rows: int) -> int:
    """Rows of an array that has room for a basis of so many, and zeros behind."""
    return -(-rows // PAD) * PAD


def orthonormalised(V: Any, Q: Any, count: int, slowly: Callable[[Any, Any], Found]) -> Found:
    """Orthonormal vectors for V, which is overwritten, beside the first `count` rows of Q; the rows behind are zero."""
    basis, R, C = Q[: padded(count)], np.eye(len(V), dtype=Q.dtype), np.zeros((count, len(V)), Q.dtype)
    for _ in range(2):
        S, T, G = _projected(V, basis, count)
        C = C + S @ R
        step = _factored(S, T, G)
        if step is None:
            break
        factor, inverse, condition = step
        xp = array_module(V)
        matmul(V.T, xp.asarray(inverse), out=V.T)
        coordinates = np.zeros((len(basis), len(V)), Q.dtype)
        coordinates[:count] = -T @ inverse
        matmul(basis.T, xp.asarray(coordinates), out=V.T, beta=1.0)
        C, R = C + T @ R, factor @ R
        if condition <= float(np.finfo(Q.dtype).eps) ** -0.25:
            return V, R, C, np.zeros(len(V), bool)
    V[np.flatnonzero(_vanished(S, G))] = 0  # of these projection left nothing but rounding
    new, factor, rest, dependent = slowly(V, Q[:count])
    return new, factor @ R, C + rest @ R, dependent


def _projected(V: Any, basis: Any, count: int) -> tuple[Any, Any, Any]:
    """(S, T, G) on the host: V -= Q S for S = Q^H V, then T = Q^H V and G = V^H V."""
    S = gram(basis.T, V.T)
    matmul(basis.T, S, out=V.T, alpha=-1.0, beta=1.0)
    found = host(array_module(V).concatenate((S, gram(basis.T, V.T), gram(V.T))))
    return found[:count], found[len(basis) :][:count], found[2 * len(basis) :]


def _vanished(S: Any, G: Any) -> Any:
    """Which vectors a projection has all but annihilated."""
    left = G.diagonal().real
    return left <= (32 * float(np.finfo(G.dtype).eps)) ** 2 * (left + (np.abs(S) ** 2).sum(axis=0))


def _factored(S: Any, T: Any, G: Any) -> tuple[Any, Any, float] | None:
    """(R, R^-1, condition number) with R^H R = G - T^H T; None where that has too few digits."""
    left = G.diagonal().real - (np.abs(T) ** 2).sum(axis=0)
    if not (left > _KEPT * G.diagonal().real).all() or _vanished(S, G).any():  # the first also of NaN
        return None
    scale, eps = np.sqrt(left), float(np.finfo(G.dtype).eps)
    try:
        R = np.linalg.cholesky((G - T.conj().T @ T) / scale / scale[:, None]).conj().T
    except np.linalg.LinAlgError:
        return None
    inverse = np.linalg.inv(R)
    condition = float(np.linalg.norm(R) * np.linalg.norm(inverse))
    if not condition < _DEPENDENT * eps**-0.5:
        return None
    return R * scale, inverse / scale[:, None], condition
