"""Which problems `refinement` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from ....plan.problem import Problem
from ...common import operands, specs

LONG = ("N", "NRHS", "BATCH")  # arguments of the kernels: a record answers for any of them
SHAPES: dict[str, tuple[str, str]] = {}  # strides are arguments of the kernels: no operand has a pitch
NARROW = {"float64": "float32", "complex128": "complex64"}  # what factors and corrections are rounded to
OF_MATRICES, OF_COLUMNS = ("whole", "norms", "narrow"), ("start", "judge")
shape = partial(operands.shape, SHAPES)
WANTS = (*OF_MATRICES, *OF_COLUMNS, "update")
RUNNING, CONVERGED, FAILED = 0, 1, 2  # STATE of a matrix, and of its columns
EPS = 2.0**-52
LEAST, MOST = 2.0**-960, 2.0**960  # norms of matrices and right-hand sides that powers of two bring close to one


def problem(dtype: str, N: int, BATCH: int, *, NRHS: int = 1, want: str = "whole", layout: str = "row") -> Problem:
    """A step of refinement for each of BATCH matrices A with NRHS right-hand sides B:

    whole   SIZES[0] = |A| = max_i sum_j |a_ij|, LOW = fl(A / 2^e) with e the exponent of |A|, STATE = 0, or 2 where
            |A| is zero, not finite or beyond what powers of two bring close to one
    norms   PARTS = max_i sum_j |a_ij| of each of CHUNKS parts of the rows
    narrow  `whole` from these parts
    start   X = 0, SIZES = |b| of each column, LOW = fl(b / 2^e) with e the exponent of |b|
    update  X += D 2^(e - e_A), R = B, where D = LOW is the correction; X of matrices with STATE = 0 alone
    judge   from R = B - A X: SIZES = |r|, LOW = fl(r / 2^e) for matrices with STATE = 0, and their new STATE, the
            worst of their columns' by `state`

    fl rounds to single precision; |x| is the largest modulus, of complex numbers |re| + |im|. `layout` says which of
    rows (row) and columns (col) of A threads read side by side. SIZES has 1 + 2 NRHS numbers per matrix: |A|, |b| and
    |r| of every column. B, X, R and the right-hand sides in LOW have no gaps, row after row.
    """
    return Problem(
        "refinement",
        dtype,
        (("N", N), ("NRHS", NRHS), ("BATCH", BATCH)),
        (("want", want), ("layout_a", layout)),
    )


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A: matrices, rows and columns; and rows and columns of A in single precision; without gaps, in elements."""
    N = problem.N
    steps = (1, N) if problem.layout_a == "col" else (N, 1)
    return (N * N, *steps, *steps)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.dtype not in NARROW:
        return f"refinement: dtype {problem.dtype} is not one of {', '.join(NARROW)}"
    if problem.want not in WANTS:
        return f"refinement: want={problem.want!r} is not one of {', '.join(WANTS)}"
    return None


def size(array: Any, axis: Any) -> Any:
    """The largest |re| + |im| along an axis."""
    return one_norm(array).max(axis)


def one_norm(array: Any) -> Any:
    """|re| + |im| of every entry."""
    return abs(array.real) + abs(array.imag) if np.iscomplexobj(array) else abs(array)


def state(left: float, before: float, limit: float, N: int) -> int:
    """STATE of a column from |r| after and before a correction and limit = |A| |x| + |b|: CONVERGED at a backward error
    of eps, or of sqrt(N) eps (LAPACK's dsgesv) where |r| no longer halves; FAILED where it no longer halves else."""
    halves = left <= before / 2
    if left <= EPS * limit * (1.0 if halves else sqrt(N)) and limit <= MOST:
        return CONVERGED
    return RUNNING if halves else FAILED


def reference(A: Any, B: Any) -> Any:
    """The solutions that refinement ends with."""
    return np.linalg.solve(A, B)
