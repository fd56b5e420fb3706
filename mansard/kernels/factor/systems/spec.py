"""Which problems `systems` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....plan.problem import Problem
from ...common import operands, specs

WIDEST = 32  # rows: a lane has a right-hand side in its registers, and a warp a row per lane
LONG = ("M", "NRHS", "BATCH")  # arguments of the kernels: a record answers for any of them
SHAPES = {"a": ("M", "N"), "b": ("M", "NRHS"), "x": ("N", "NRHS")}  # rows and columns
FACTORED = ("lu", "transposed", "adjoint", "cholesky")  # A holds factors
NUMBERS = ("determinant", "logdet")
WANTS = ("solve", "positive", *FACTORED, "residuals", *NUMBERS, "check")
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str,
    M: int,
    N: int,
    BATCH: int,
    *,
    NRHS: int = 1,
    want: str = "solve",
    pivot: bool = True,
    uplo: str = "lower",
    aligned: bool = True,
    **given: Any,
) -> Problem:
    """NRHS right-hand sides B for each of BATCH matrices A:

    solve       X = A^-1 B by LU, and INFO; rows are exchanged with `pivot`
    positive    X = A^-1 B by Cholesky, and INFO; the lower triangle of A is read
    lu          X = A^-1 B; A holds L and U, PIVOTS the exchanges of rows, as LAPACK's getrf gives them
    transposed  X = A^-T B from these factors
    adjoint     X = A^-H B from these factors
    cholesky    X = A^-1 B; A holds L, or U (`uplo`)
    residuals   SQUARES = |B - A X|^2 per column, and INFO = N, of M x N matrices
    determinant X = one number per matrix, from these factors
    logdet      X = the determinant's phase, SQUARES = the logarithm of its modulus
    check       INFO = 1 or 0, one word: whether one of BATCH integers (PIVOTS) is not zero

    Strides are arguments of the kernels: of the traits of operands (`common/operands.py`) only stacks count.
    """
    sizes = {"a": (M, N), "b": (M, NRHS), "x": (N, NRHS)}
    found = operands.resolved(sizes, given)
    return Problem(
        "systems",
        dtype,
        (("M", M), ("N", N), ("NRHS", NRHS), ("BATCH", BATCH)),
        (("want", want), ("pivot", pivot), ("uplo", uplo), *operands.traits(found, stack=tuple(SHAPES))),
    )


def strides(problem: Problem) -> tuple[int, ...]:
    """Matrix, row and column strides of A, B and X without gaps, in elements."""
    found: tuple[int, ...] = ()
    for name in SHAPES:
        rows, columns = shape(problem, name)
        step = 0 if getattr(problem, f"stack_{name}") == "shared" else rows * columns
        found += (step, columns, 1)
    return found if problem.want not in NUMBERS else (*found[:3], 0, 0, 0, 1, 1, 1)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.want not in WANTS:
        return f"systems: want={problem.want!r} is not one of {', '.join(WANTS)}"
    if "pointers" in (problem.stack_a, problem.stack_b, problem.stack_x):
        return "systems: matrices without a common stride"
    if problem.want in ("residuals", "check") or (problem.want in NUMBERS and problem.M == problem.N):
        return None
    if problem.M != problem.N:
        return f"systems: {problem.M} x {problem.N}: only a square matrix has an inverse"
    if problem.N > WIDEST:
        return f"systems: {problem.N} rows: beyond {WIDEST} factors and triangular solves do better"
    return None


def reference(A: Any, B: Any = None, X: Any = None) -> Any:
    """The solutions in NumPy or, with X, the squared residuals; without B, determinants."""
    if B is None:
        return np.linalg.det(A)
    if X is None:
        return np.linalg.solve(A, B)
    return (abs(B - A @ X) ** 2).sum(-2)
