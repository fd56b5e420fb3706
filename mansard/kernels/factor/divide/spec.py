"""Which problems `divide` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial

from ....plan.problem import REAL, Problem
from ...common import operands
from ..sweeps.spec import FORMS, reference, strides

__all__ = [
    "FORMS", "LONG", "POINTERS", "SHAPES", "WANTS", "WIDEST_OF_VECTORS", "problem", "reference", "refusal", "shape",
    "strides",
]  # fmt: skip

LEAST, WIDEST = 2, 512  # rows: a single one is its value; beyond, reductions are a library's
WIDEST_OF_VECTORS = 128  # rows: beyond, two matrices of vectors have no room in shared memory
LONG = ("BATCH",)  # a record answers for any number of matrices
SHAPES: dict[str, tuple[str, str]] = {}  # all operands lie without gaps
WANTS = ("values", "shifts", "vectors")
POINTERS = ("D", "E", "SCALE", "W", "Z", "INFO")
shape = partial(operands.shape, SHAPES)


def problem(dtype: str, N: int, BATCH: int, *, form: str = "tridiagonal", want: str = "values") -> Problem:
    """Values of BATCH symmetric tridiagonal or upper bidiagonal N x N matrices with diagonals D and off-diagonals E.

    values      W: eigenvalues in ascending, singular values in descending order, divided by SCALE (if it is not null)
    shifts      W: the same values in ascending order, not divided: what `sweeps` takes as SHIFTS
    vectors     tridiagonal alone: W as for values, Z: eigenvectors in columns, in the order of the values

    D, E and W are [BATCH][N], Z is [BATCH][N][N]; E[N - 1] is not read. Entries are those of matrices scaled to about
    one. INFO is 0, the number of values that did not converge, or N + 1 if an entry is not finite.
    """
    return Problem("divide", dtype, (("N", N), ("BATCH", BATCH)), (("form", form), ("want", want)))


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if problem.dtype not in REAL.values():
        return f"divide: dtype {problem.dtype}: reductions make tridiagonal and bidiagonal matrices real"
    if problem.form not in FORMS:
        return f"divide: form={problem.form!r} is not one of {', '.join(FORMS)}"
    if problem.want not in WANTS:
        return f"divide: want={problem.want!r} is not one of {', '.join(WANTS)}"
    if problem.want == "vectors" and problem.form != "tridiagonal":
        return "divide: vectors of tridiagonal matrices alone: take sweeps for bidiagonal ones"
    widest = WIDEST_OF_VECTORS if problem.want == "vectors" else WIDEST
    if not LEAST <= problem.N <= widest:
        return f"divide: {problem.N} rows: from {LEAST} to {widest}"
    return None
