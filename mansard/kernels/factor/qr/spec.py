"""Which problems `qr` accepts, and what the right answer is."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from ....plan.problem import Problem
from ...common import operands, specs

WIDEST = 128  # columns (of Q, too); rows are limited by what a multiprocessor holds
WIDEST_PANEL = 32
MOST_RHS = 16  # right-hand sides that are solved for on the way
LONG = ("BATCH",)  # sizes in which a tuning record may differ from the problem it answers
# rows and columns; those of F and Q are fewer where less is wanted
SHAPES = {"a": ("M", "N"), "f": ("M", "N"), "q": ("M", "M"), "b": ("M", "NRHS"), "x": ("N", "NRHS")}
OPERANDS = tuple(SHAPES)
WANTS = ("raw", "r", "reduced", "complete", "solve", "panel")
STACKS = ("packed", "strided", "pointers")


def problem(
    dtype: str,
    M: int,
    N: int,
    BATCH: int,
    *,
    NRHS: int = 0,
    want: str = "raw",
    aligned: bool = True,
    **given: Any,
) -> Problem:
    """A = Q R for a stack of M x N matrices, K = min(M, N), and what is wanted of it:

    raw       F (M x N) has R and below it the vectors of the reflections, TAU their factors, as LAPACK's geqrf
    r         F (K x N) = R
    reduced   Q (M x K), F (K x N) = R
    complete  Q (M x M), F (M x N) = R
    solve     X (N x NRHS) for which A X is nearest to B; M >= N, and the columns of A are independent
    panel     raw, and the T (K x K, upper) of Q = I - V T V^H where Q would be

    `given` are layouts, pitches and stacks (`common/operands.py`); F and Q lie like A and X like B if nothing else is
    said, without gaps where their sizes differ. F may be A where they lie alike.
    """
    found = operands.resolved(shapes(M, N, NRHS, want), given, like={"f": "a", "q": "a", "x": "b"})
    # every matrix starts on a 16-byte boundary, or (packed) the stack does
    traits = (("want", want), *operands.traits(found), ("aligned", aligned))
    return Problem("qr", dtype, (("M", M), ("N", N), ("NRHS", NRHS), ("BATCH", BATCH)), traits)


def shapes(M: int, N: int, NRHS: int, want: str) -> dict[str, tuple[int, int]]:
    """Rows and columns of all operands; none where one is absent."""
    K, nothing = min(M, N), (0, 0)
    of_f = {"raw": (M, N), "panel": (M, N), "r": (K, N), "reduced": (K, N), "complete": (M, N)}
    of_q = {"reduced": (M, K), "complete": (M, M), "panel": (K, K)}
    solves = want == "solve"
    return {
        "a": (M, N),
        "f": of_f.get(want, nothing),
        "q": of_q.get(want, nothing),
        "b": (M, NRHS) if solves else nothing,
        "x": (N, NRHS) if solves else nothing,
    }


def shape(problem: Problem, operand: str) -> tuple[int, int]:
    """Rows and columns of an operand; none where it is absent."""
    return shapes(problem.M, problem.N, problem.NRHS, problem.want)[operand]


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, F, Q, B and X: matrix, rows, columns, in elements; matrices as close as their alignment allows."""
    return tuple(chain.from_iterable(operands.strides(problem, name, shape(problem, name)) for name in OPERANDS))


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    M, N = problem.M, problem.N
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.want not in WANTS:
        return f"qr: want={problem.want!r} is not one of {', '.join(WANTS)}"
    if min(M, N) < 1:
        return "qr: there is nothing to factor"
    if problem.want == "solve" and (M < N or not 1 <= problem.NRHS <= MOST_RHS):
        return f"qr: {M} equations, {N} unknowns, {problem.NRHS} right-hand sides: as many at least, 1 to {MOST_RHS}"
    if problem.want == "panel" and min(M, N) > WIDEST_PANEL:
        return f"qr: a panel of {min(M, N)} columns: beyond {WIDEST_PANEL} there are better ways to form T"
    return None


def too_large(problem: Problem) -> str | None:
    """Why the matrices are not for one kernel of a GPU."""
    M, N = problem.M, problem.N
    widest = max(N, shape(problem, "q")[1])
    if widest > WIDEST:
        return f"qr: {widest} columns: beyond {WIDEST} factor panels and update what is right of them"
    beside = -(-problem.NRHS // 8) * 8  # a column of threads more
    words = M * max(widest, N + beside) * problem.itemsize // 4
    if words > _MOST_WORDS[problem.itemsize]:
        return f"qr: {M} x {widest}: a multiprocessor has no room for it"
    return None


_MOST_WORDS = {4: 45056, 8: 45056, 16: 36864}  # of a matrix, in the registers of a block; by the size of an element


def reference(A: Any, B: Any = None, want: str = "raw") -> tuple[Any, ...]:
    """The answer in NumPy, in the operands' own precision: what `want` names, in the order F, TAU, Q, X."""
    if want == "solve":
        return (np.stack([np.linalg.lstsq(a, b, rcond=None)[0] for a, b in zip(A, B, strict=True)]),)
    if want in ("raw", "panel"):
        factors = [np.linalg.qr(a, "raw") for a in A]
        return np.stack([h.T for h, _ in factors]), np.stack([tau for _, tau in factors])
    if want == "r":
        return (np.linalg.qr(A, "r"),)
    Q, R = np.linalg.qr(A, want)  # type: ignore[call-overload]
    return R, Q
