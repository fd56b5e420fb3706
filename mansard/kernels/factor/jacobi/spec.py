"""Which problems `jacobi` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from ....plan.problem import Problem
from ...common import operands, specs

LONG = ("BATCH",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("N", "N")}  # rows and columns; results have no gaps
WANTS = ("eigh", "eigvalsh", "svd", "svdvals")
POINTERS = ("A", "W", "Z", "VH", "INFO")  # of a launch, in this order; null where a problem has no such result
LARGEST_OF_THREAD = 8  # rows of a matrix in the registers of one thread, on GPUs
LEAST_OF_BLOCK = 2  # rows of a matrix in the shared memory of a block, on GPUs
LARGEST_ON_CPU = 128  # rows of a matrix in a SIMD lane, by Jacobi's method where no library has it
LARGEST_BESIDE_GEJSV = 16  # rows of real matrices for singular values: LAPACK's gejsv does larger ones
LARGEST_OF_ANY = 128  # by any method: larger matrices were not measured to win
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str, N: int, BATCH: int, *, want: str = "eigh", uplo: str = "lower", method: str = "jacobi", **given: Any
) -> Problem:  # fmt: skip
    """Eigenvalues or singular values of BATCH matrices of N x N, with vectors (eigh, svd) or without:

    eigh, eigvalsh  A = Z diag(W) Z^H with W ascending; A is Hermitian, and only its triangle `uplo` is read
    svd, svdvals    A = Z diag(W) VH with W descending

    `method` is `any` where a reduction to condensed form may take the place of Jacobi's sweeps (CPUs); Jacobi's own has
    eigenvalues of definite matrices with small relative errors there. A `ragged` stack (CPUs) has matrices of up to N
    rows, and a table says where each of them and its results are.
    `given` are layout_a, pitch_a and stack_a (`common/operands.py`). W is [BATCH][N] and real; Z and VH are
    [BATCH][N][N], row-major; INFO is 0, N (no convergence) or N + 1 (an infinity or a NaN in A; all results are NaN).
    """
    found = operands.resolved({"a": (N, N)}, given)
    triangle = uplo if want in ("eigh", "eigvalsh") else "lower"  # svd reads both: one kernel
    asked = (("method", method),) if method != "jacobi" else ()
    traits = (("want", want), ("uplo", triangle), *operands.traits(found), *asked)
    return Problem("jacobi", dtype, (("N", N), ("BATCH", BATCH)), traits)


def takes_any_method(problem: Problem) -> bool:
    """Whether methods other than Jacobi's may answer."""
    return dict(problem.traits).get("method") == "any"


def largest_on_cpu(problem: Problem) -> int:
    """Rows of the largest matrix in a SIMD lane."""
    if not takes_any_method(problem):
        return LARGEST_BESIDE_GEJSV if is_svd(problem) and not problem.is_complex else LARGEST_ON_CPU
    return LARGEST_OF_ANY


def is_relative(problem: Problem) -> bool:
    """Whether eigenvalues on CPUs are to have small relative errors: Jacobi's method was asked for by name."""
    return not is_svd(problem) and not takes_any_method(problem)


def has_vectors(problem: Problem) -> bool:
    """Whether vectors are wanted, not only values."""
    return problem.want in ("eigh", "svd")


def is_svd(problem: Problem) -> bool:
    """Whether singular values are wanted, not eigenvalues."""
    return problem.want in ("svd", "svdvals")


def is_staged(problem: Problem) -> bool:
    """Whether the matrices of A follow each other without gaps, so that blocks read them in the order of memory."""
    return bool(problem.stack_a == "packed" and problem.layout_a != "any" and problem.pitch_a == problem.N)


def strides(problem: Problem) -> tuple[int, ...]:
    """Strides of a packed A: from matrix to matrix, row to row, column to column, in elements."""
    return problem.N * problem.pitch_a, *problem.strides("a")


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    for name, value, known in (
        ("want", problem.want, WANTS),
        ("uplo", problem.uplo, ("lower", "upper")),
        ("stack_a", problem.stack_a, ("packed", "strided", "pointers", "ragged")),
    ):
        if value not in known:
            return f"jacobi: {name}={value!r} is not one of {', '.join(known)}"
    return None if problem.N > 0 else "jacobi: no rows"


def too_large(problem: Problem, largest: int) -> str | None:
    """Why the matrices are too large for one thread or lane, or None if they are not."""
    if largest >= problem.N:
        return None
    other = "the blocked routines of LAPACK do" if takes_any_method(problem) else "a reduction to condensed form does"
    return f"jacobi: {problem.N} rows: beyond {largest} {other} better"


def reference(A: Any, want: str = "eigh", uplo: str = "lower") -> tuple[Any, ...]:
    """W, and where vectors are wanted Z and VH, in NumPy and the precision of A; signs and phases are LAPACK's."""
    triangle: Literal["L", "U"] = "L" if uplo == "lower" else "U"
    if want == "eigvalsh":
        return (np.linalg.eigvalsh(A, triangle),)
    if want == "eigh":
        return tuple(np.linalg.eigh(A, triangle))
    if want == "svdvals":
        return (np.linalg.svd(A, compute_uv=False),)
    Z, W, VH = np.linalg.svd(A)
    return W, Z, VH
