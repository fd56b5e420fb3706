"""The Krylov basis of s-step GMRES: blocks of s vectors are computed at a time, orthonormalised together, and give s
columns of the Hessenberg matrix that single steps would have given."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operations.sparse.storage import array_module, host
from ...operations.tall_skinny.orthogonal import orthogonalize
from . import panels
from .space import WHOLE, Space

_WORTH = 1 << 14  # entries of a vector: below, LAPACK is done before a kernel is compiled
_KEPT = 0.5  # of a vector's norm: a projection that leaves less is repeated, since its error was relative to the whole


class Basis:
    """Orthonormal vectors Q, (most + 1, n), and the Hessenberg matrix H with A Q[:k]^T = Q[:k+1]^T H[:k+1, :k]."""

    def __init__(self, first: Any, most: int, space: Space = WHOLE) -> None:
        self.orthonormalised = space.orthonormalised or orthonormalised
        self.is_whole = space.orthonormalised is None
        self.module = array_module(first)
        self.Q = self.module.zeros((panels.padded(most + 1), len(first)), first.dtype)
        self.Q[0] = first
        self.H = np.zeros((most + 1, most), first.dtype)
        self.columns = 0

    def extend(self, V: Any, B: Any) -> int:
        """Take in v_1 .. v_s of V, (s + 1, n), whose v_0 is the last vector of Q and A V[:s]^T = V^T B. Returns how
        many columns were added: fewer than s where a vector depends on those before it; none can follow then."""
        k, s = self.columns + 1, len(V) - 1
        s, R, coefficients = self._taken_in(V[1:], k)
        C = np.zeros((k + s, s + 1), self.H.dtype)  # V = Q C
        C[k - 1, 0] = 1
        C[:k, 1:], C[k:, 1:] = coefficients[:, :s], R[:s, :s]
        image = C @ B[: s + 1, :s]
        image[:k] -= self.H[:k, : k - 1] @ C[: k - 1, :s]
        triangle = C[k - 1 : k + s - 1, :s]
        self.H[: k + s, k - 1 : k + s - 1] = np.linalg.solve(triangle.T, image.T).T
        self.columns += s
        return s

    def _taken_in(self, V: Any, k: int) -> tuple[int, Any, Any]:
        """Write orthonormal vectors behind the first k of Q: (how many, R, C) with V = C^T Q[:k] + R^T new."""
        if self.is_whole and len(V) > 1 and V.shape[1] >= max(_WORTH, len(self.Q)):
            new, R, C, dependent = panels.orthonormalised(V, self.Q, k, self.orthonormalised)
        else:
            new, R, C, dependent = self.orthonormalised(V, self.Q[:k])
        s = int(np.argmax(dependent)) + 1 if dependent.any() else len(V)
        self.Q[k : k + s] = new[:s]
        return s, R, C


def orthonormalised(V: Any, Q: Any) -> tuple[Any, Any, Any, Any]:
    """V = C^T Q + R^T new for the rows of V and Q: (new, R, C, dependent); R and C on the host."""
    count, size = V.shape
    if count > 1 and size >= max(_WORTH, count + len(Q)):
        new, R, C, dependent = orthogonalize(V.T, Q.T, on_deficient="flag")
        return new.T, host(R), host(C), dependent
    return _of_one(V, Q) if count == 1 else _by_qr(V, Q)


def _of_one(V: Any, Q: Any) -> tuple[Any, Any, Any, Any]:
    """The same of one vector: a projection, repeated where little was left, then its norm. The host waits once for each
    projection."""
    xp, rest = array_module(V), V[0]
    C: Any = np.zeros(len(Q), V.dtype)
    for _ in range(2):
        part = (Q @ rest.conj()).conj()
        rest = rest - part @ Q
        found = host(xp.concatenate((part, (rest.conj() @ rest).reshape(1))))
        C, square = C + found[:-1], float(found[-1].real)
        if square >= _KEPT**2 * (square + float((np.abs(found[:-1]) ** 2).sum())):
            break
    size, norm = np.sqrt((np.abs(C) ** 2).sum() + square), np.sqrt(square)
    is_dependent = bool(norm <= 32 * np.finfo(C.dtype).eps * size)
    norm = 0.0 if is_dependent else norm
    new = rest * rest.dtype.type(0 if is_dependent else 1 / norm)
    return new[None], np.full((1, 1), norm, V.dtype), C[:, None], np.array([is_dependent])


def _by_qr(V: Any, Q: Any) -> tuple[Any, Any, Any, Any]:
    """The same by two projections and Householder's QR; there may be more vectors than dimensions."""
    xp, tall = array_module(V), V.T
    first = (Q @ tall.conj()).conj()
    rest = tall - Q.T @ first
    second = (Q @ rest.conj()).conj()
    new, R = xp.linalg.qr(rest - Q.T @ second)
    C, R, kept = host(first + second), host(R), len(R)
    sizes = np.sqrt((np.abs(C) ** 2).sum(axis=0) + (np.abs(R) ** 2).sum(axis=0))
    full, rows = np.zeros((len(V), len(V)), R.dtype), xp.zeros(V.shape, V.dtype)
    full[:kept], rows[:kept] = R, new.T
    dependent = np.abs(np.diag(full)) <= 32 * np.finfo(R.dtype).eps * sizes
    for column in np.flatnonzero(dependent):
        rows[column], full[column, column] = 0, 0
    return rows, full, C, dependent


class LeastSquares:
    """min norm(beta e_1 - H y) column by column, by Givens rotations; those so far are one unitary matrix."""

    def __init__(self, beta: float, most: int, dtype: Any) -> None:
        self.R = np.zeros((most + 1, most), dtype)
        self.g = np.zeros(most + 1, dtype)
        self.g[0] = beta
        self.columns = 0
        self._turned = np.eye(most + 1, dtype=dtype)

    def add(self, column: Any) -> float:
        """Take in the next column of H (its entries down to the subdiagonal); the norm of the residual."""
        k = self.columns
        column = self._turned[: k + 2, : k + 2] @ column
        high, low = column[k], column[k + 1]
        length = float(np.hypot(abs(high), abs(low)))
        if length == 0:
            c, s = 1.0, 0.0
        elif high == 0:
            c, s = 0.0, np.conj(low) / abs(low)
        else:
            c, s = abs(high) / length, high / abs(high) * np.conj(low) / length
        turn = np.array([[c, s], [-np.conj(s), c]], self.R.dtype)
        rows = self._turned[k : k + 2]
        rows[:, : k + 2] = turn @ rows[:, : k + 2]
        self.R[:k, k], self.R[k, k] = column[:k], c * high + s * low
        self.g[k + 1], self.g[k] = -np.conj(s) * self.g[k], c * self.g[k]
        self.columns += 1
        return float(abs(self.g[k + 1]))

    def solution(self) -> Any:
        """y of all columns so far. A column that adds nothing (H singular) gets no part."""
        k = self.columns
        R = self.R[:k, :k]
        smallest = np.finfo(R.dtype).eps * np.abs(R).max(initial=0.0)
        if k and np.abs(np.diag(R)).min() > smallest:
            return np.linalg.solve(R, self.g[:k])
        return np.linalg.lstsq(R, self.g[:k], rcond=None)[0]
