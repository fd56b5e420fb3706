"""Which problems `trsm` accepts, and what the right answer is."""

from __future__ import annotations

from itertools import chain
from typing import Any

from ....plan.problem import Problem
from ...common import operands, specs

WIDEST, WIDEST_ALONE = 256, 2048  # unknowns of several right-hand sides, and of one
WIDEST_OF_FEW, FEW = 512, 64  # unknowns of few systems; how many sixteens of columns they have at the most
LONG = ("BATCH",)  # sizes in which a tuning record may differ from the problem it answers
ALIKE = ("uplo", "unit")  # traits that may differ too: a triangle takes as long as the other
SHAPES = {"a": ("N", "N"), "b": ("N", "NRHS"), "x": ("N", "NRHS")}  # rows and columns, where A is on the left
STACKS = ("packed", "strided", "shared", "pointers")


def problem(
    dtype: str,
    N: int,
    NRHS: int,
    BATCH: int,
    *,
    side: str = "left",
    uplo: str = "lower",
    trans: str = "N",
    unit: bool = False,
    aligned: bool = True,
    **given: Any,
) -> Problem:
    """op(A) X = alpha B (`left`: B and X are N x NRHS) or X op(A) = alpha B (`right`: they are NRHS x N).

    A is N x N, of which only the triangle `uplo` is referenced, without its diagonal if it is `unit`; op is the
    identity (`N`), the transpose (`T`), the conjugate transpose (`C`) or the conjugate (`R`). `given` are layouts,
    pitches and stacks (`common/operands.py`); X lies like B if nothing else is said, and may be B.
    """
    if not dtype.startswith("complex"):
        trans = {"C": "T", "R": "N"}.get(trans, trans)
    right = (N, NRHS) if side == "left" else (NRHS, N)
    found = operands.resolved({"a": (N, N), "b": right, "x": right}, given, like={"x": "b"})
    return Problem(
        "trsm",
        dtype,
        (("N", N), ("NRHS", NRHS), ("BATCH", BATCH)),
        (
            ("side", side),
            ("uplo", uplo),
            ("trans", trans),
            ("unit", unit),
            *operands.traits(found),
            ("aligned", aligned),  # every matrix starts on a 16-byte boundary, or (packed) the stack does
        ),
    )


def shape(problem: Problem, operand: str) -> tuple[int, int]:
    """Rows and columns of an operand."""
    rows, columns = operands.shape(SHAPES, problem, operand)
    return (rows, columns) if operand == "a" or problem.side == "left" else (columns, rows)


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, B and X: matrix, rows, columns, in elements; matrices as close as their alignment allows."""
    return tuple(chain.from_iterable(operands.strides(problem, name, shape(problem, name)) for name in SHAPES))


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    return too_wide(problem.N, widest(problem))


def widest(problem: Problem) -> int:
    """Unknowns that a kernel takes at the most."""
    if problem.NRHS == 1:
        return WIDEST_ALONE
    return WIDEST_OF_FEW if -(-problem.NRHS // 16) * problem.BATCH <= FEW else WIDEST


def too_wide(unknowns: int, most: int) -> str | None:
    """Why so many unknowns are not for a kernel, where that takes this many at the most."""
    if unknowns > most:
        return f"trsm: {unknowns} unknowns: beyond {most} a general triangular solver does better"
    return None


def reference(
    A: Any,
    B: Any,
    alpha: complex = 1,
    side: str = "left",
    uplo: str = "lower",
    trans: str = "N",
    unit: bool = False,
) -> Any:
    """The answer in NumPy, row by row, in the operands' own precision."""
    if side == "right":
        turned = {"N": "T", "T": "N", "C": "R", "R": "C"}[trans]
        return reference(A, B.swapaxes(-1, -2), alpha, "left", uplo, turned, unit).swapaxes(-1, -2)
    E, X = A.swapaxes(-1, -2) if trans in "TC" else A, alpha * B
    E = E.conj() if trans in "CR" else E
    order = range(E.shape[-1]) if (uplo == "lower") == (trans in "NR") else range(E.shape[-1] - 1, -1, -1)
    known: list[int] = []
    for row in order:
        if known:
            X[..., row, :] -= (E[..., row, :][..., None, known] @ X[..., known, :])[..., 0, :]
        if not unit:
            X[..., row, :] /= E[..., row, row, None]
        known.append(row)
    return X
