"""Which problems `gradients` accepts, and what the right answer is."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....plan.problem import Problem
from ...common import operands, specs

WIDEST = 32  # rows: a lane has a column of a matrix in its registers, and a warp a column per lane
MOST_RIGHT = 8  # right-hand sides, as many as `lu` solves for
LONG = ("BATCH",)  # a tuning record answers for any number of matrices
SHAPES = {"a": ("N", "N"), "g": ("N", "N"), "y": ("N", "NRHS")}  # rows and columns; G of a solution is as wide as Y
PRODUCTS = ("inverse", "congruence")
WANTS = (*PRODUCTS, "cholesky", "solution")


def problem(
    dtype: str,
    N: int,
    BATCH: int,
    *,
    NRHS: int = 0,
    want: str = "inverse",
    pivot: bool = True,
    aligned: bool = True,
    **given: Any,
) -> Problem:
    """The gradient F with respect to each of BATCH matrices, from the gradient G of a result:

    inverse     F = -A^H G A^H, where A is the inverse of the matrix
    congruence  F = A G A^H
    cholesky    F = S + S^H with S = L^-H P L^-1, where A = L is the factor, and P half the lower triangle of L^H G,
                with half its diagonal; the upper triangles of L and G are not read
    solution    W = A^-H G and F = -W Y^H, where Y is the solution of A^H's system: `transposed` and conjugated, A is
                what the system was solved with

    For a solution A is the transpose of the system's matrix, in memory a view of it, and its entries are conjugated
    by the kernel. W and F have no gaps, row after row.
    """
    sizes = {"a": (N, N), "g": (N, NRHS if want == "solution" else N), "y": (N, NRHS)}
    found = operands.resolved(sizes, given)
    return Problem(
        "gradients",
        dtype,
        (("N", N), ("NRHS", NRHS), ("BATCH", BATCH)),
        (("want", want), ("pivot", pivot), *operands.traits(found), ("aligned", aligned)),
    )


def shape(problem: Problem, operand: str) -> tuple[int, int]:
    """Rows and columns of an operand; none where it is absent."""
    if operand == "y" and problem.want != "solution":
        return 0, 0
    if operand == "g" and problem.want == "solution":
        return int(problem.N), int(problem.NRHS)
    return operands.shape(SHAPES, problem, operand)


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, G and Y: matrix, rows, columns, in elements; matrices as close as their alignment allows."""
    found: tuple[int, ...] = ()
    for name in SHAPES:
        found += operands.strides(problem, name, shape(problem, name))
    return found


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.want not in WANTS:
        return f"gradients: want={problem.want!r} is not one of {', '.join(WANTS)}"
    if "pointers" in (problem.stack_a, problem.stack_g, problem.stack_y):
        return "gradients: matrices without a common stride"
    if problem.N > WIDEST:
        return f"gradients: {problem.N} rows: beyond {WIDEST} products and triangular solves do better"
    if problem.want == "solution" and not 1 <= problem.NRHS <= MOST_RIGHT:
        return f"gradients: {problem.NRHS} right-hand sides: 1 to {MOST_RIGHT}, others are solved for first"
    return None


def reference(want: str, A: Any, G: Any, Y: Any = None) -> Any:
    """F in NumPy; of a solution W and F."""
    adjoint = A.conj().swapaxes(-1, -2)
    if want == "inverse":
        return -adjoint @ G @ adjoint
    if want == "congruence":
        return A @ G @ adjoint
    if want == "solution":
        W = np.linalg.solve(A.conj(), G)
        return W, -W @ Y.conj().swapaxes(-1, -2)
    P = np.tril(adjoint @ np.tril(G)) / 2
    P -= P * np.eye(P.shape[-1]) / 2
    inverse = np.linalg.inv(np.tril(A))
    S = inverse.conj().swapaxes(-1, -2) @ P @ inverse
    return S + S.conj().swapaxes(-1, -2)
