"""Which problems `lu` accepts, and what the right answer is."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....plan.problem import DTYPES, REAL, Problem

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
    layout_a: str = "row",
    layout_f: str | None = None,
    layout_b: str = "row",
    layout_x: str | None = None,
    pitch_a: int | None = None,
    pitch_f: int | None = None,
    pitch_b: int | None = None,
    pitch_x: int | None = None,
    stack_a: str = "packed",
    stack_f: str | None = None,
    stack_b: str = "packed",
    stack_x: str | None = None,
    aligned: bool = True,
) -> Problem:
    """A = P L U for a stack of M x N matrices, and what is wanted of it:

    factor       F holds L (below its unit diagonal) and U; row i was exchanged with row PIVOTS[i], as in LAPACK
    solve        X = A^-1 B for NRHS right-hand sides
    inverse      F = A^-1
    determinant  one number of F per matrix
    logdet       log |det A| is a real number of X, its phase a number of F, per matrix
    swap         F = A with row i exchanged with row PIVOTS[i], for NRHS pivots in turn

    Without `pivot` rows stay where they are. F lies like A, and X like B, if nothing else is said, and may be it.
    """
    layouts, stacks = {"a": layout_a, "b": layout_b}, {"a": stack_a, "b": stack_b}
    layouts |= {"f": layout_a if layout_f is None else layout_f, "x": layout_b if layout_x is None else layout_x}
    stacks |= {"f": stack_a if stack_f is None else stack_f, "x": stack_b if stack_x is None else stack_x}
    if want in ("determinant", "logdet"):
        stacks |= {"f": "packed", "x": "packed"}
    pitches = {"a": pitch_a, "f": pitch_f, "b": pitch_b, "x": pitch_x}
    for name, like, rows, columns in (("a", "", M, N), ("f", "a", M, N), ("b", "", N, NRHS), ("x", "b", N, NRHS)):
        if pitches[name] is None:
            alike = like and (layouts[name], stacks[name]) == (layouts[like], stacks[like])
            pitches[name] = pitches[like] if alike else rows if layouts[name] == "col" else columns
    traits = {f"layout_{name}": layouts[name] for name in SHAPES}
    traits |= {f"pitch_{name}": pitches[name] for name in SHAPES}  # type: ignore[misc]
    traits |= {f"stack_{name}": stacks[name] for name in SHAPES}
    return Problem(
        "lu",
        dtype,
        (("M", M), ("N", N), ("NRHS", NRHS), ("BATCH", BATCH)),
        (
            ("want", want),
            ("pivot", pivot),
            *traits.items(),
            ("aligned", aligned),  # every matrix starts on a 16-byte boundary, or (packed) the stack does
        ),
    )


def shape(problem: Problem, operand: str) -> tuple[int, int]:
    """Rows and columns of an operand; none where it is absent."""
    if not present(problem, operand):
        return 0, 0
    if problem.want in ("determinant", "logdet") and operand in "fx":
        return 1, 1
    rows, columns = (int(getattr(problem, name)) for name in SHAPES[operand])
    return rows, columns


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
    for operand in SHAPES:
        rows, columns = shape(problem, operand)
        if rows * columns == 0:
            found += (0, 0, 0)
        elif operand in "fx" and problem.want in ("determinant", "logdet"):
            found += (1, 1, 1)
        else:
            lines = columns if getattr(problem, f"layout_{operand}") == "col" else rows
            stack, matrix = getattr(problem, f"stack_{operand}"), lines * getattr(problem, f"pitch_{operand}")
            step = 16 // problem.itemsize
            if stack == "strided" and problem.aligned and step > 1:
                matrix = -(-matrix // step) * step
            found += (matrix, *problem.strides(operand))
    return found


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if problem.dtype not in DTYPES:
        return f"lu: dtype {problem.dtype} is not one of {', '.join(DTYPES)}"
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


def real_of(problem: Problem) -> str:
    """The dtype of a logarithm."""
    return REAL[problem.dtype]
