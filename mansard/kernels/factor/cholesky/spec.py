"""Which problems `cholesky` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ....plan.problem import Problem
from ...common import operands as placed
from ...common import specs

WIDEST = {4: 304, 8: 208, 16: 144}  # by the size of an element: a triangle of that order fits into shared memory
MOST_RHS = 16  # right-hand sides that are solved for on the way
LONG = ("BATCH",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("N", "N"), "f": ("N", "N"), "b": ("N", "NRHS"), "x": ("N", "NRHS")}  # rows and columns


def problem(
    dtype: str,
    N: int,
    BATCH: int,
    *,
    NRHS: int = 0,
    want: str = "factor",
    uplo: str = "lower",
    aligned: bool = True,
    **given: Any,
) -> Problem:
    """F = L with A = L L^H (`lower`) or F = U with A = U^H U (`upper`), or the X (N x NRHS) of A X = B (want `solve`).

    Of A only the triangle `uplo` is read; the other one of F is zero. `given` are layouts, pitches and stacks
    (`common/operands.py`); F lies like A and X like B if nothing else is said. F may be A, and X may be B, where they
    lie alike.

    A stack may also be `ragged`: orders differ from matrix to matrix and are N at the most, matrices lie row after row
    without gaps, and a table of four words (int64) per matrix says what its order is, where `info` goes, and where it
    and its factor begin.
    """
    sizes = {"a": (N, N), "f": (N, N), "b": (N, NRHS), "x": (N, NRHS)}
    found = placed.traits(placed.resolved(sizes, given, like={"f": "a", "x": "b"}))
    # every matrix starts on a 16-byte boundary, or (packed) the stack does
    traits = (("want", want), ("uplo", uplo), *found, ("aligned", aligned))
    return Problem("cholesky", dtype, (("N", N), ("NRHS", NRHS), ("BATCH", BATCH)), traits)


def is_ragged(problem: Problem) -> bool:
    """Whether orders differ from matrix to matrix."""
    return bool(problem.stack_a == "ragged")


def operands(problem: Problem) -> tuple[str, ...]:
    """Those that a kernel touches."""
    return ("a", "f") if problem.want == "factor" else ("a", "b", "x")


shape = partial(placed.shape, SHAPES)


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, F, B and X: matrix, rows, columns, in elements; matrices as close as their alignment allows."""
    sizes = {name: shape(problem, name) if name in operands(problem) else (0, 0) for name in SHAPES}
    return tuple(chain.from_iterable(placed.strides(problem, name, size) for name, size in sizes.items()))


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.want not in ("factor", "solve"):
        return f"cholesky: want={problem.want!r} is not one of factor, solve"
    if is_ragged(problem) and (
        problem.want != "factor" or problem.stack_f != "ragged" or {problem.layout_a, problem.layout_f} != {"row"}
    ):
        return "cholesky: ragged batches: only factors, row after row, that are ragged themselves"
    if problem.want == "solve" and problem.NRHS < 1:
        return "cholesky: no right-hand sides, nothing to solve for"
    if problem.want == "solve" and problem.NRHS > MOST_RHS:
        return f"cholesky: {problem.NRHS} right-hand sides: beyond {MOST_RHS} factor first, then solve"
    return None


def too_large(problem: Problem) -> str | None:
    """Why the matrices are not for one kernel of a GPU."""
    order, widest = int(problem.N), WIDEST[problem.itemsize]
    return (
        f"cholesky: order {order}: beyond {widest} a matrix does not fit a multiprocessor" if order > widest else None
    )


def reference(A: Any, B: Any = None, uplo: str = "lower") -> tuple[Any, Any]:
    """The factors, or with B the solutions, and `info`, in NumPy and the operands' own precision.

    Matrices that are not positive definite have NaN from the column that says so on.
    """
    lower = A if uplo == "lower" else A.swapaxes(-1, -2).conj()
    L, info = np.zeros_like(A), np.zeros(A.shape[:-2], np.int32)
    with np.errstate(all="ignore"):
        for k in range(A.shape[-1]):
            left = lower[..., k:, k] - (L[..., k:, :k] @ L[..., k, :k, None].conj())[..., 0]
            pivot = left[..., 0].real
            info[(info == 0) & ~(pivot > 0)] = k + 1
            root = np.sqrt(np.where(pivot > 0, pivot, np.nan))
            L[..., k:, k] = left / root[..., None]
            L[..., k, k] = root
    if B is None:
        return (L if uplo == "lower" else L.swapaxes(-1, -2).conj()), info
    bad = np.where(info[..., None, None] > 0, np.nan, 0).astype(A.dtype)
    safe = np.where(info[..., None, None] > 0, np.eye(A.shape[-1], dtype=A.dtype), L)
    return np.linalg.solve(safe.swapaxes(-1, -2).conj(), np.linalg.solve(safe, B)) + bad, info
