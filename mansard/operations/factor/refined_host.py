"""Refinement on CPUs, one matrix after the other: LAPACK's factors in single precision, residuals by BLAS.

A matrix in C order is its transpose in LAPACK's order, whose factors serve as well: nothing is transposed in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from math import frexp
from operator import add
from typing import NamedTuple

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from ...arrays.types import Array
from ...kernels.factor.refinement.spec import CONVERGED, FAILED, LEAST, MOST, NARROW, one_norm, size, state
from .lapack import in_shares
from .task import Task

MOST_CORRECTIONS = 8  # each at least halves the residual; of matrices worth refining it shrinks a hundredfold
_LIKE_LU = 1 << 30  # rows up to which SciPy's getrf and getrs may be called by several threads at once
_LIKE_CHOLESKY = 96
_LEAST_UNSCALED = 2.0**-40  # norms between this and its inverse are near enough to one for single precision


class _Factored(NamedTuple):
    """A matrix M = A, or A^T, that LAPACK reads, and what its factors in single precision are for. Right-hand sides and
    solutions are rows."""

    norm: float  # |A|; of positive definite matrices the largest entry, a lower bound
    power: int  # the factors are those of M / 2^power
    correct: Callable[[Array], Array]  # right-hand sides in single precision -> corrections
    multiply: Callable[[Array], Array]  # solutions -> their products with A
    conjugated: bool = False  # the factors are those of conj(A)


def solve(task: Task, A: Array, B: Array) -> tuple[Array, Array]:
    """Solutions and states (CONVERGED or FAILED) for NumPy stacks (count, n, n) and (count, n, k)."""

    def run(A: Array, B: Array) -> dict[str, Array]:
        X, state = np.empty(B.shape, B.dtype), np.full(len(B), FAILED, np.int32)
        with np.errstate(all="ignore"):
            for i in range(len(B)):
                found = _one(task, A[i], B[i])
                if found is not None:
                    X[i], state[i] = found, CONVERGED
        return {"X": X, "STATE": state}

    found = in_shares(run, [A, B], _LIKE_LU if task.family == "lu" else _LIKE_CHOLESKY)
    return found["X"], found["STATE"]


def _one(task: Task, A: Array, B: Array) -> Array | None:
    """The solution, or None where it does not converge."""
    if not (A.flags.c_contiguous or A.flags.f_contiguous):
        A = np.ascontiguousarray(A)
    factored = _general(A) if task.family == "lu" else _positive(A)
    if factored is None:
        return None
    if factored.conjugated:
        X = _corrected(factored, np.ascontiguousarray(B.T.conj()))
        return None if X is None else X.T.conj()
    X = _corrected(factored, np.ascontiguousarray(B.T))
    return None if X is None else X.T


def _corrected(factored: _Factored, B: Array) -> Array | None:
    """Corrections of every right-hand side (a row of B) until its backward error is small, as long as each halves the
    residual."""
    low, N = np.dtype(NARROW[B.dtype.name]), B.shape[1]
    of_b = before = size(B, 1).tolist()
    if not all(one <= MOST for one in of_b):
        return None
    X, R = np.zeros(B.shape, B.dtype), B
    for _ in range(1 + MOST_CORRECTIONS):
        powers = [max(-1000, frexp(one)[1]) for one in before]
        D = factored.correct((R * _of_rows([2.0**-p for p in powers])).astype(low))
        halves = [(p - factored.power) // 2 for p in powers]
        X += D * _of_rows([2.0**h for h in halves]) * _of_rows(
            [2.0 ** (p - factored.power - h) for p, h in zip(powers, halves, strict=True)]
        )
        R = B - factored.multiply(X)
        left, limits = size(R, 1).tolist(), (factored.norm * size(X, 1)).tolist()
        states = {state(*row, N) for row in zip(left, before, map(add, limits, of_b), strict=True)}
        if states == {CONVERGED}:
            return X
        if FAILED in states:
            return None
        before = left
    return None


def _of_rows(numbers: list[float]) -> Array | float:
    """A number per row; of one row, the number itself, with which NumPy computes in half the time."""
    return numbers[0] if len(numbers) == 1 else np.array(numbers)[:, None]


def _general(A: Array) -> _Factored | None:
    """LU factors, with exchanges of rows (of columns of A in C order)."""
    by_rows = A.flags.c_contiguous
    M, low = A.T if by_rows else A, np.dtype(NARROW[A.dtype.name])
    getrf, getrs = get_lapack_funcs(("getrf", "getrs"), dtype=low)
    rounded, power, norm = M.astype(low, order="F"), 0, 0.0
    for _ in range(2):  # the second time scaled, where single precision overflows or loses digits to its least numbers
        norm = float(one_norm(rounded).sum(0 if by_rows else 1).max())
        if _LEAST_UNSCALED <= norm <= 1 / _LEAST_UNSCALED:
            break
        largest = float(size(A, None))
        if power or not LEAST <= largest <= MOST:
            return None
        power = int(np.frexp(largest)[1])
        rounded = (M * 2.0**-power).astype(low, order="F")
    factors, pivots, info = getrf(rounded, overwrite_a=1)
    if info:
        return None

    def correct(R: Array) -> Array:
        return getrs(factors, pivots, R.T, trans=int(by_rows), overwrite_b=1)[0].T

    return _Factored(norm * 2.0**power, power, correct, lambda X: X @ A.T)


def _positive(A: Array) -> _Factored | None:
    """Cholesky factors. Of A in C order, the lower triangle is the upper one of conj(A), which LAPACK reads."""
    lower = not A.flags.c_contiguous
    M, low = A if lower else A.T, np.dtype(NARROW[A.dtype.name])
    potrf, potrs = get_lapack_funcs(("potrf", "potrs"), dtype=low)
    norm, power = float(M.diagonal().real.max()), 0  # no entry is larger, if M is positive definite
    if not LEAST <= norm <= MOST:
        return None
    if not _LEAST_UNSCALED <= norm <= 1 / _LEAST_UNSCALED:
        power = int(np.frexp(norm)[1])
    rounded = (M * 2.0**-power if power else M).astype(low, order="F")
    factor, info = potrf(rounded, lower=lower, clean=0, overwrite_a=1)
    if info:
        return None

    def correct(R: Array) -> Array:
        return potrs(factor, R.T, lower=lower, overwrite_b=1)[0].T

    return _Factored(norm, power, correct, _hermitian_product(M, lower), not lower and low.kind == "c")


def _hermitian_product(M: Array, lower: bool) -> Callable[[Array], Array]:
    """Right-hand sides x, as rows -> M x, by one triangle of M."""
    name = "he" if M.dtype.kind == "c" else "sy"
    by_matrix, by_vector = get_blas_funcs((f"{name}mm", f"{name}mv"), dtype=M.dtype)

    def multiply(X: Array) -> Array:
        if len(X) == 1:
            return by_vector(1.0, M, X[0], lower=lower)[None, :]
        return by_matrix(1.0, M, X.T, lower=lower).T

    return multiply
