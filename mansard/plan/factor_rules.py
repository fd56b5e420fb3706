"""Rules for factorizations, systems and eigenvalues: where libraries or steps answer, not one kernel."""

from __future__ import annotations

from collections.abc import Iterator

from .. import settings
from ..kernels import family_of
from ..kernels.factor.jacobi import rivals
from . import few_matrices
from .libraries import AFTER_FACTORS, BLOCKS, MANY, ROUTES, is_tuned, library
from .problem import Problem
from .route import Choice, Origin, Request, Steps

# Rows or columns beyond which a matrix outgrows the second cache of a core, or is work enough for a whole GPU: the
# blocked routines of LAPACK and of the vendor spend their time in products then.
LIBRARY_FROM = {
    "cuda": {"cholesky": 1024, "lu": 1024, "qr": 1024},
    "cpu": {"cholesky": 1024, "lu": 512, "qr": 512},
}
_LARGE_MATRIX = 128  # rows or columns from which LAPACK has several cores work on one matrix with profit
_FEW = 1 << 26  # products of sizes up to which a kernel for just these is not worth its compilation
_FOLLOWED = (("lu", "solve"), ("lu", "inverse"), ("lu", "determinant"), ("lu", "logdet"), ("cholesky", "solve"))


def suits_few(rows: int, columns: int, count: int) -> bool:
    """Whether matrices are large and so few that LAPACK is the better choice, even where kernels are faster."""
    if min(rows, columns) <= _LARGE_MATRIX:
        return False
    return 2 * count <= settings.current().threads or count * rows * columns * min(rows, columns) < _FEW


def large_or_few(problem: Problem, request: Request) -> Iterator[Choice]:
    """The library for large matrices, and on CPUs for a few of them, unless a record speaks for a kernel."""
    rows, columns = (problem.N if problem.operation == "cholesky" else problem.M), problem.N
    on_cpu = request.backend == "cpu"
    large = max(rows, columns) > LIBRARY_FROM["cpu" if on_cpu else "cuda"][problem.operation]
    if not large and not (on_cpu and suits_few(rows, columns, problem.BATCH)):
        return
    if not is_tuned(problem, request):
        reason = "faster than one kernel for matrices as large, or as few, as these, and no record says otherwise"
        yield library(problem, request, reason)


def steps(problem: Problem, reason: str, origin: Origin) -> Choice:
    """A factorization by blocks, or what follows from the factors."""
    name = AFTER_FACTORS if (problem.operation, problem.want) in _FOLLOWED else BLOCKS
    return Choice(family_of(problem.operation), Steps(name, ROUTES[name], reason), origin)


def beyond_tiny(problem: Problem, request: Request) -> Iterator[Choice]:
    """The library, which stands for several launches, for systems of more rows than one launch factors and solves."""
    reason = few_matrices.beyond_tiny(problem, request)
    if reason and not is_tuned(problem, request):
        yield library(problem, request, reason)


_SOLVED_ON_CPUS = 128  # rows of systems: beyond, LAPACK's own blocks are as fast as factors and triangles by kernels


def may_divide(problem: Problem, request: Request) -> bool:
    """Whether steps by kernels are faster than a library: on CPUs only many systems with many right-hand sides."""
    if request.backend != "cpu":
        return True
    return bool(problem.want == "solve" and problem.BATCH >= MANY and problem.N <= _SOLVED_ON_CPUS)


LEAST = 100e-6  # seconds of LAPACK's work, or twice what the settings say, that a kernel of several seconds is worth


def few_tiny(problem: Problem, request: Request) -> Iterator[Choice]:
    """LAPACK on CPUs for the eigenvalues and singular values of few matrices, unless a record speaks for a kernel."""
    if request.backend != "cpu" or is_tuned(problem, request):
        return
    least = max(LEAST, 2e-6 * settings.current().library_below)
    reason = rivals.lapack_reason(problem, [problem.N] * problem.BATCH, request.device, least)
    if reason:
        yield library(problem, request, reason)
