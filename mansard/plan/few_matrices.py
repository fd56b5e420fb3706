"""Few matrices, and tiny ones, on GPUs: reasons for which a library, or one launch, answers instead of many launches.

The reasons hold on every GPU; what was measured on one is a record of routes, or of numbers (`ROWS` of `systems`).
"""

from __future__ import annotations

from ..kernels.common import measured
from ..kernels.factor.systems import spec
from .problem import Problem
from .route import Request

# Rows beyond which tiny systems are factored first, then solved for: a lane has a right-hand side of so many numbers in
# its registers, and N^2 unrolled products beside it, which fill the cache of instructions from about 32 rows on.
_TINY = 16
_OF_COLUMNS = ("solve", "positive", *spec.FACTORED)  # what is wanted of one launch
_IDLE = 32  # multiprocessors per matrix: with fewer at work than one of so many, the vendor's routine, which has all of
# them work on one matrix after the other, is done first; assumed where no record of routes knows the size
_SQUARE = 128  # rows of a leading square that one kernel factors: its widest


def _rows(problem: Problem, request: Request) -> int:
    """Rows up to which one launch factors and solves: a record of the device, or assumed."""
    return measured.number("systems", request.device, "ROWS", _TINY, bytes=problem.itemsize)


def beyond_tiny(problem: Problem, request: Request) -> str | None:
    """Why several launches solve systems of so many rows, or None if one does."""
    rows = _rows(problem, request)
    if problem.want not in _OF_COLUMNS or rows >= problem.N:
        return None
    return f"{problem.N} rows: beyond {rows} factors come first, then triangles"


def too_few(problem: Problem, request: Request) -> str | None:
    """Why a GPU's library does better than many launches with a block of threads per matrix; None: it does not."""
    if request.backend != "cuda" or not request.may_hand_over or request.device.multiprocessors < problem.BATCH * _IDLE:
        return None
    if problem.operation == "qr" and problem.M < problem.N and problem.M <= _SQUARE:
        return None  # one kernel for the leading columns, one product for the others
    if problem.want == "solve" and problem.operation != "qr" and _rows(problem, request) >= problem.N:
        return None  # one launch factors and solves
    count, idle = problem.BATCH, request.device.multiprocessors - problem.BATCH
    return f"a block of threads per matrix ({count}) would leave {idle} multiprocessors idle in every step"
