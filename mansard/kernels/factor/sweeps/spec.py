"""Which problems `sweeps` accepts, what the right answer is, and how records of rotations lie in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....plan.problem import REAL, Problem
from ...common import operands

WIDEST = 512  # rows; larger matrices leave too few of them in shared memory
LONG = ("BATCH",)  # a record answers for any number of matrices
SHAPES: dict[str, tuple[str, str]] = {}  # all operands lie without gaps
FORMS = ("tridiagonal", "bidiagonal")
WANTS = ("values", "rotations")
POINTERS = ("D", "E", "SHIFTS", "W", "LEFT", "RIGHT", "RANGES", "COUNT", "SCALE", "INFO")
MATRICES_PER_GROUP = 32  # whose records are interleaved
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str,
    N: int,
    BATCH: int,
    CAPACITY: int = 0,
    *,
    form: str = "tridiagonal",
    want: str = "values",
    sorted: bool = True,
) -> Problem:
    """Values of BATCH symmetric tridiagonal or upper bidiagonal N x N matrices with diagonals D and off-diagonals E.

    values      W: eigenvalues in ascending, singular values in descending order, divided by SCALE (if it is not null);
                or, not `sorted`, in the order of the iteration and not divided: what `rotations` takes as SHIFTS
    rotations   W: values in the order of the iteration, not divided, singular values with a sign; LEFT and (bidiagonal)
                RIGHT: records of rotations (two_sided/rotations.cuh), RANGES and COUNT of at most CAPACITY sweeps

    D, E, SHIFTS and W are [BATCH][N]; E[N - 1] is not read. Entries are those of matrices scaled to about one. INFO is
    0, the number of off-diagonal entries that did not become negligible, or N + 1 if an entry is not finite.
    """
    traits = (("form", form), ("want", want), ("sorted", sorted and want == "values"))
    return Problem("sweeps", dtype, (("N", N), ("BATCH", BATCH), ("CAPACITY", CAPACITY)), traits)


def capacity(N: int) -> int:
    """Sweeps that are ample for every matrix: rank-deficient ones have needed 3.2 N."""
    return 5 * N + 8


def record_words(N: int, BATCH: int, CAPACITY: int) -> int:
    """Real numbers in an array of records: LEFT, or RIGHT."""
    groups = -(-BATCH // MATRICES_PER_GROUP)
    return 2 * MATRICES_PER_GROUP * groups * CAPACITY * N


def records_of(records: Any, problem: Problem, matrix: int, sweep: int) -> Any:
    """Records of one sweep of one matrix, (N, 2): c - 1 and s of each rotation."""
    whole = records.reshape(-1, problem.CAPACITY, problem.N, MATRICES_PER_GROUP, 2)
    return whole[matrix // MATRICES_PER_GROUP, sweep, :, matrix % MATRICES_PER_GROUP]


def strides(problem: Problem) -> tuple[int, ...]:
    """Nothing: all operands lie without gaps."""
    return ()


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if problem.dtype not in REAL.values():
        return f"sweeps: dtype {problem.dtype}: reductions make tridiagonal and bidiagonal matrices real"
    if problem.form not in FORMS:
        return f"sweeps: form={problem.form!r} is not one of {', '.join(FORMS)}"
    if problem.want not in WANTS:
        return f"sweeps: want={problem.want!r} is not one of {', '.join(WANTS)}"
    if not 1 <= problem.N <= WIDEST:
        return f"sweeps: {problem.N} rows: from 1 to {WIDEST}"
    if problem.want == "rotations" and problem.CAPACITY < 1:
        return "sweeps: rotations need room: pass CAPACITY, the number of sweeps"
    return None


def reference(D: Any, E: Any, form: str = "tridiagonal") -> Any:
    """The values in NumPy, sorted."""
    index = np.arange(D.shape[1])
    whole = np.zeros((*D.shape, D.shape[1]), D.dtype)
    whole[:, index, index] = D
    whole[:, index[:-1], index[1:]] = E[:, :-1]
    return np.linalg.eigvalsh(whole, "U") if form == "tridiagonal" else np.linalg.svd(whole, compute_uv=False)
