"""Which problems `lu` accepts, and what the right answer is."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....plan.problem import Problem
from ...common import operands, specs

TALLEST, WIDEST = 2048, 128  # rows and columns of a factorization
ROOM = 226_600  # bytes of shared memory for a matrix and what is beside it
MOST_RIGHT = 8  # right-hand sides that are solved for without the factors being stored
LONG = ("BATCH",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("M", "N"), "f": ("M", "N"), "b": ("N", "NRHS"), "x": ("N", "NRHS")}  # rows and columns
WANTS = ("factor", "solve", "inverse", "determinant", "logdet", "swap")
STACKS = ("packed", "strided", "pointers")


def problem(
    dtype: str,
    M: int,
    N: int,
    BATCH: int,
    *,
    NRHS: int = 0,
    want: str = "factor",
    pivot: bool = True,
    aligned: bool = True,
    **given: Any,
) -> Problem:
    """A = P L U for a stack of M x N matrices, and what is wanted of it:

    factor       F holds L (below its unit diagonal) and U; row i was exchanged with row PIVOTS[i], as in LAPACK
    solve        X = A^-1 B for NRHS right-hand sides
    inverse      F = A^-1
    determinant  one number of F per matrix
    logdet       log |det A| is a real number of X, its phase a number of F, per matrix
    swap         F = A with row i exchanged with row PIVOTS[i], for NRHS pivots in turn

    Without `pivot` rows stay where they are. `given` are layouts, pitches and stacks (`common/operands.py`); F lies
    like A, and X like B, if nothing else is said, and may be it.
    """
    if want in ("determinant", "logdet"):
        given |= {"stack_f": "packed", "stack_x": "packed"}
    sizes = {"a": (M, N), "f": (M, N), "b": (N, NRHS), "x": (N, NRHS)}
    found = operands.resolved(sizes, given, like={"f": "a", "x": "b"})
    return Problem(
        "lu",
        dtype,
        (("M", M), ("N", N), ("NRHS", NRHS), ("BATCH", BATCH)),
        (
            ("want", want),
            ("pivot", pivot),
            *operands.traits(found),
            ("aligned", aligned),  # every matrix starts on a 16-byte boundary, or (packed) the stack does
        ),
    )


def shape(problem: Problem, operand: str) -> tuple[int, int]:
    """Rows and columns of an operand; none where it is absent."""
    if not present(problem, operand):
        return 0, 0
    if problem.want in ("determinant", "logdet") and operand in "fx":
        return 1, 1
    return operands.shape(SHAPES, problem, operand)


def present(problem: Problem, operand: str) -> bool:
    """Whether what is wanted has this operand."""
    if operand in "bx":
        return problem.want == "solve" or (operand == "x" and problem.want == "logdet")
    return operand == "a" or problem.want != "solve"


def steps(problem: Problem) -> int:
    """Pivots per matrix."""
    return int(problem.NRHS if problem.want == "swap" else min(problem.M, problem.N))


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, F, B and X: matrix, rows, columns, in elements; matrices as close as their alignment allows."""
    found: tuple[int, ...] = ()
    for name in SHAPES:
        is_number = name in "fx" and problem.want in ("determinant", "logdet") and present(problem, name)
        found += (1, 1, 1) if is_number else operands.strides(problem, name, shape(problem, name))
    return found


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.want not in WANTS:
        return f"lu: want={problem.want!r} is not one of {', '.join(WANTS)}"
    if problem.want in ("factor", "swap"):
        return None
    if problem.M != problem.N:
        return f"lu: {problem.M} x {problem.N}: only a square matrix has a {problem.want}"
    if problem.want == "solve" and problem.NRHS > MOST_RIGHT:
        return f"lu: {problem.NRHS} right-hand sides: beyond {MOST_RIGHT} factors and triangular solves do better"
    return None


def too_large(problem: Problem) -> str | None:
    """Why the matrices are not for one kernel of a GPU."""
    M, N, advice = problem.M, problem.N, "panels and products do better"
    if M > TALLEST or N > WIDEST:
        return f"lu: {M} x {N}: beyond {TALLEST} rows or {WIDEST} columns {advice}"
    beside = N * problem.NRHS if problem.want == "solve" else 0
    if (M * N + beside) * problem.itemsize > ROOM:
        return f"lu: {M} x {N}, {problem.want}: more than {ROOM} bytes of {problem.dtype} numbers: {advice}"
    return None


def reference(A: Any, pivot: bool = True) -> tuple[Any, Any, Any]:
    """F, PIVOTS and INFO in NumPy: LAPACK's steps, one column after the other, in the precision of A."""
    F = np.array(A)
    batch, rows, columns = F.shape
    pivots, info = np.zeros((batch, min(rows, columns)), np.int32), np.zeros(batch, np.int32)
    for number, matrix in enumerate(F):
        for k in range(min(rows, columns)):
            chosen = k + (first_largest(matrix[k:, k]) if pivot else 0)
            pivots[number, k] = chosen
            if matrix[chosen, k] == 0:
                info[number] = info[number] or k + 1
                continue
            matrix[[k, chosen]] = matrix[[chosen, k]]
            matrix[k + 1 :, k] /= matrix[k, k]
            matrix[k + 1 :, k + 1 :] -= np.outer(matrix[k + 1 :, k], matrix[k, k + 1 :])
    return F, pivots, info


def first_largest(column: Any) -> int:
    """The first index of the largest |re| + |im|, as i?amax finds it: a NaN counts only if it comes first."""
    sizes = abs(column.real) + abs(column.imag)
    if np.isnan(sizes[0]):
        return 0
    return int(np.argmax(np.where(np.isnan(sizes), -1, sizes)))


def permutation(pivots: Any, rows: int) -> Any:
    """The rows of A in the order of those of L U, per matrix."""
    order = np.tile(np.arange(rows), (len(pivots), 1))
    for number, row in enumerate(pivots):
        for i, other in enumerate(row):
            order[number, [i, other]] = order[number, [other, i]]
    return order
