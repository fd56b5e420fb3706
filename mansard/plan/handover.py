"""Handover rules, found by measurement: shapes that the array library or LAPACK computes though a kernel could.

Calls with arrays and `mansard explain` ask the same functions, so that an explanation is what happens.
"""

from __future__ import annotations

from typing import Any

from .. import settings
from ..codegen.geometry import Device
from ..kernels import family_of
from ..records import database
from .dispatch import Choice
from .problem import Problem

# --- products of two matrices ------------------------------------------------------------------------------

_WIDEST = 128  # columns of a skinny matrix: more of them, and arithmetic is the limit, not memory
_TALL = 16  # rows per column, from which a matrix is tall: below, the result is no small part of what is moved
FEWEST_ON_CPUS = 2048  # rows of a tall matrix: less is over before a kernel of ours has begun
_SKINNY, _LARGE = 32, 2048  # columns of B, rows and columns of A, from where tsm2r is asked
_LARGE_MANY = 16, 4096  # the same for more columns: 32 of 2048 rows took cuBLAS 0.87 of our time
_LARGE_VECTOR = 8192  # the same for one column: up to 5000 cuBLAS' matrix times vector took 0.63 to 0.87 of our time
_SHORT_DOT = 8 << 20  # bytes of two vectors whose scalar product cuBLAS has sooner (0.72 to 0.91 of our time)
_WON = ("float32",)  # for these: in double precision cuBLAS is up to 11 % faster here and there (H200)


def family_for(dtype: str, m: int, k: int, n: int, fewest: int = 0) -> str | None:
    """Name the family that multiplies an (m, k) with a (k, n) matrix, by dtype and shape; None: the array library."""
    if max(m, n) <= _WIDEST and k >= max(_TALL * max(m, n), fewest):
        return "gram"
    if max(k, n) <= _WIDEST and m >= max(_TALL * max(k, n), fewest):
        return "tsmm"
    large = _LARGE_VECTOR if n == 1 else _LARGE_MANY[1] if n > _LARGE_MANY[0] else _LARGE
    return "tsm2r" if dtype in _WON and n <= _SKINNY and min(m, k) >= large else None


def library_multiplies(problem: Problem, choice: Choice, backend: str) -> bool:
    """Whether the array library is to be called at once: a record says so, or, on GPUs, nothing was recorded and the
    shape is one of those where a model's choice lost to cuBLAS: wide and not very tall, or A against the grain; and
    short scalar products."""
    if choice.config is None:
        return bool(choice.origin == "vendor")
    if backend != "cuda" or problem.operation == "tsm2r":
        return False
    widest = max(problem.M, problem.N)
    moved = problem.K * (problem.M + problem.N) * problem.itemsize
    if problem.operation == "gram" and widest == 1 and moved < _SHORT_DOT:
        return True
    if choice.origin == "tuned":
        return False
    if problem.operation == "tsmm" and problem.layout_a == "col" and widest > 8:
        return True
    return bool((widest > 32 and moved < 32 << 20) or (widest > 64 and moved < 256 << 20))


# --- batches of products -----------------------------------------------------------------------------------

SMALL = 32  # rows and columns up to which our kernels answer; beyond, a record must say that they are faster
_ON_CPUS = {"NumPy": 160, "PyTorch": 64}  # the same there: 1.3 to 4 times as fast, or not slower


def why_library_batch(problem: Problem, backend: str, device: Device, library: str) -> str | None:
    """Why a batch of products is left to the array library, which is named; None where a kernel answers."""
    widest = max(problem.M, problem.N, problem.K)
    most = _ON_CPUS.get(library, SMALL) if backend == "cpu" else SMALL
    if widest <= most or database.best(problem, device, family_of(problem.operation)) is not None:
        return None
    return f"{widest} rows or columns, and no record says that a kernel of ours is faster there"


# --- factorizations ----------------------------------------------------------------------------------------

# Rows or columns beyond which the array library, or LAPACK, is faster than kernels and blocks of ours. On CPUs measured
# (the families' own limits are tighter), on GPUs not.
LIBRARY_FROM = {
    "cuda": {"cholesky": 1024, "lu": 1024, "qr": 1024},
    "cpu": {"cholesky": 1024, "lu": 512, "qr": 512},
}
_LARGE_MATRIX = 128  # rows or columns from which LAPACK has several cores work on one matrix with profit
_FEW = 1 << 26  # products of sizes up to which a kernel for just these is not worth its compilation
_MANY_MATRICES = 3000  # matrices whose factorization lasts longer than the launches of its halves from Python
FOLLOWED = (("lu", "solve"), ("lu", "inverse"), ("lu", "determinant"), ("lu", "logdet"), ("cholesky", "solve"))
ROUTES = {
    "blocks": "blocks by kernels; triangular solves and products (gemm) for the rest",
    "factors": "factors, then triangular solves (trsm)",
    "library": "the array library, or LAPACK",
    "nothing": "no kernel",
}


def suits_few(rows: int, columns: int, count: int) -> bool:
    """Whether matrices are large and so few that LAPACK is the better choice, even where kernels are faster."""
    if min(rows, columns) <= _LARGE_MATRIX:
        return False
    return 2 * count <= settings.current().threads or count * rows * columns * min(rows, columns) < _FEW


def library_factors(problem: Problem, backend: str, device: Device) -> bool:
    """Whether the library is known to be faster, and no record speaks for a kernel."""
    (rows, columns), on_cpu = _extent(problem), backend == "cpu"
    small = max(rows, columns) <= LIBRARY_FROM["cpu" if on_cpu else "cuda"][problem.operation]
    if small and not (on_cpu and suits_few(rows, columns, problem.BATCH)):
        return False
    return database.best(problem, device, family_of(problem.operation)) is None


def is_divided(problem: Problem, backend: str) -> bool:
    """Whether halves are faster than the one kernel there is: of LU from 117 rows on, one block of threads fits on a
    multiprocessor. There must be matrices enough to wait for Python's many launches."""
    known = problem.operation == "lu" and problem.want in ("factor", "solve") and problem.dtype == "float64"
    rows, columns = _extent(problem)
    square = rows == columns and columns % 4 == 0 and columns > 116
    return known and square and backend == "cuda" and problem.BATCH >= _MANY_MATRICES


def factor_route(problem: Problem, choice: Choice, backend: str, device: Device) -> str:
    """`kernel`, or one of ROUTES: how a factorization is done by a call that leaves the choice to Mansard."""
    if choice.origin == "empty":
        return "nothing"
    if library_factors(problem, backend, device):
        return "library"
    if choice.config is not None and not is_divided(problem, backend):
        return "kernel"
    if backend == "cpu":
        return "library"
    return "factors" if (problem.operation, problem.want) in FOLLOWED else "blocks"


def _extent(problem: Any) -> tuple[int, int]:
    """Rows and columns of a matrix; Cholesky's are square."""
    return (problem.N if problem.operation == "cholesky" else problem.M), problem.N
