"""The same systems, and products, by SciPy's BLAS, one after the other: the answer on CPUs where nothing of ours is
better."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs

from ....plan.problem import Problem


def solve_each(problem: Problem, A: Any, X: Any, alpha: complex) -> None:
    """op(A) X = alpha B (or X op(A) = alpha B) for NumPy stacks (..., rows, columns); X is B before the call, and A has
    the leading dimensions of X."""
    _each("trsm", problem, A, X, alpha)


def multiply_each(problem: Problem, A: Any, X: Any, alpha: complex) -> None:
    """X becomes alpha op(A) X, or alpha X op(A)."""
    _each("trmm", problem, A, X, alpha)


def _each(name: str, problem: Problem, A: Any, X: Any, alpha: complex) -> None:
    """All matrices of a stack lie alike: what BLAS, which wants columns, is told about them is decided once."""
    if not X.size:
        return
    function = _function(name, problem.dtype)
    first = (0,) * (X.ndim - 2)
    a_turned, x_turned = not A[first].flags.f_contiguous, not X[first].flags.f_contiguous
    A, X = A.swapaxes(-1, -2) if a_turned else A, X.swapaxes(-1, -2) if x_turned else X
    told = _told(problem, a_turned, x_turned)
    conjugates = problem.trans in "CR" and not told[2]
    factor = alpha if problem.is_complex else complex(alpha).real
    in_place = bool(X[first].flags.f_contiguous)
    for a, x in zip(A, X, strict=True) if X.ndim == 3 else ((A[at], X[at]) for at in np.ndindex(X.shape[:-2])):
        found = function(factor, a.conj() if conjugates else a, x, *told)
        if not in_place:  # neither rows nor columns of X are adjacent
            x[...] = found


def bound(problem: Problem, a_turned: bool, shape: tuple[int, ...], name: str = "trsm") -> Callable[[Any, Any], None]:
    """`solve_each` (or `multiply_each`, by the `name` trmm) without a factor, for stacks of which everything is known:
    (A, X), where rows of X, of this `shape`, are adjacent and those of A if `a_turned`, else its columns."""
    function, x_turned = _function(name, problem.dtype), 1 not in shape[-2:]
    told = _told(problem, a_turned, x_turned)
    conjugates, single = problem.trans in "CR" and not told[2], len(shape) == 2

    def solve(A: Any, X: Any) -> None:
        A, X = A.swapaxes(-1, -2) if a_turned else A, X.swapaxes(-1, -2) if x_turned else X
        if single:
            function(1.0, A.conj() if conjugates else A, X, *told)
            return
        for at in np.ndindex(shape[:-2]):
            function(1.0, A[at].conj() if conjugates else A[at], X[at], *told)

    return solve


def _told(problem: Problem, a_turned: bool, x_turned: bool) -> tuple[int, ...]:
    """Side, lower, transposition, unit diagonal and overwriting, as BLAS is told them."""
    turned, conjugated = (problem.trans in "TC") != (a_turned != x_turned), problem.trans in "CR"
    side, lower = int((problem.side == "right") != x_turned), int((problem.uplo == "lower") != a_turned)
    return side, lower, (2 if conjugated else 1) if turned else 0, int(problem.unit), 1


@lru_cache(maxsize=16)
def _function(name: str, dtype: str) -> Any:
    return get_blas_funcs((name,), dtype=np.dtype(dtype))[0]
