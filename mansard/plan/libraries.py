"""The array library's routine for a problem, and the names of routes that are no single kernel."""

from __future__ import annotations

from ..kernels import family_of
from ..records import database
from .problem import Problem
from .route import OWN_ROUTINE, Choice, Library, Origin, Request

FACTORS = ("cholesky", "lu", "qr")
TWO_SIDED = ("jacobi", "tridiagonal", "bidiagonal", "sweeps", "divide", "back_transform")
BLOCKS, AFTER_FACTORS, BY_LIBRARY = "blocks", "factors", "library"
ROUTES = {
    BLOCKS: "blocks by kernels; triangular solves and products (gemm) for the rest",
    AFTER_FACTORS: "factors, then triangular solves (trsm)",
    BY_LIBRARY: "the array library, or LAPACK",
}
ONE_BY_ONE = "SciPy's BLAS, one matrix after the other"
_BY_PRODUCT = "a product (gemm, or matmul), of which a triangle is copied"
_BY_BLAS = f"SciPy's BLAS, which computes one triangle, for NumPy arrays; otherwise {_BY_PRODUCT}"
MANY, NARROW = 32, 16  # matrices; rows or columns: from and up to these a copy and gemm cost less than calls of BLAS


def library(problem: Problem, request: Request, reason: str, origin: Origin = "rule") -> Choice:
    name = OWN_ROUTINE
    if problem.operation in (*FACTORS, *TWO_SIDED):
        name = ROUTES[BY_LIBRARY]
    elif problem.operation == "rank_k":
        name = _BY_BLAS if request.on_cpu else _BY_PRODUCT
    elif problem.operation == "trsm":
        name = ONE_BY_ONE if request.on_cpu else "the array library's products, row by row"
    elif problem.operation == "trmm":
        one_by_one = request.on_cpu and (problem.BATCH < MANY or max(problem.N, problem.NRHS) > NARROW)
        name = ONE_BY_ONE if one_by_one else "a copy of the triangle, and a product"
    return Choice(family_of(problem.operation), Library(name, reason), origin)


def is_tuned(problem: Problem, request: Request) -> bool:
    """Whether a tuning record speaks for the very shape: what it says is taken."""
    return database.best(problem, request.device, family_of(problem.operation)) is not None
