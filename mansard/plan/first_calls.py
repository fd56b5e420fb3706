"""Work too little to earn a compilation, on CPUs: the array library answers where a call takes microseconds, and a
kernel whose sizes are arguments where one of its own could not save enough; in the first call and in every later one.

Both rules ask the problem alone, not the cache and not the calls before, so that a call gives the same bits every time.
The first speaks where nobody named a backend or pinned a parameter, and no tuning record knows the shape; the second
where neither pins nor records name a kernel. GPUs are left alone: nothing was measured there. `MANSARD_LIBRARY_BELOW`
(settings.py) moves both limits; 0 compiles a kernel of its own for everything.
"""

from __future__ import annotations

from .. import settings, units
from ..codegen.geometry import Device
from ..kernels import family_of
from .problem import Problem
from .route import Kernel, Request

# Seconds that compiling a CPU kernel takes, a moderate one with a warm disk cache: what the library's whole time must
# add up to before a kernel has earned its compilation, even one that takes no time itself.
_COMPILING = 2.0

# Seconds of the library for a matrix beyond the call itself: a turn of a loop in C for products, a routine of LAPACK
# called from a loop in C, or (`_ONE_BY_ONE`) a routine that is called from Python. NumPy works long at any QR.
_EACH_PRODUCT, _EACH_FACTOR, _EACH_CALL, _QR_CALL = 0.3e-6, 1e-6, 5e-6, 15e-6
# Permutations by pivots: NumPy's calls around them; an exchange in all matrices, or all exchanges in one, whichever are
# fewer; a number of a permutation.
_ORDER_CALL, _EACH_EXCHANGE, _EACH_PLACE = 10e-6, 3e-6, 15e-9
_EACH_LISTED = 0.25e-6  # what a kernel saves of a product of two arrays by a call from Python
_PRODUCTS = ("gram", "tsmm", "tsm2r", "gemm", "gemv", "rank_k", "trmm")
_FACTORS = ("trsm", "cholesky", "lu", "qr")
_ONE_BY_ONE = (("trsm", None), ("cholesky", "solve"), ("lu", "factor"), ("qr", "solve"))
# Rates of one core of any CPU at orders below 32: products fill a vector unit, eliminations wait for each other.
_PRODUCT_RATE, _FACTOR_RATE = 4e9, 1e9  # operations per second
_MEMORY_RATE = 10e9  # bytes per second from a cache or from memory, by one core


def library_seconds(problem: Problem) -> float:
    """Estimate the seconds that the array library computes on one core, without the overhead of the call."""
    work, operation = family_of(problem.operation).work.work(problem), problem.operation
    want = dict(problem.traits).get("want")
    if operation in _PRODUCTS:
        each, rate = _EACH_PRODUCT, _PRODUCT_RATE
    else:
        each, rate = (_EACH_CALL if (operation, want) in _ONE_BY_ONE else _EACH_FACTOR), _FACTOR_RATE
    count = dict(problem.sizes).get("BATCH", 1)
    if want == "swap":
        numbers = min(count, problem.NRHS) * _EACH_EXCHANGE + count * problem.NRHS * _EACH_PLACE
        return float(_ORDER_CALL + numbers + work.bytes / _MEMORY_RATE)
    fixed = _QR_CALL if operation == "qr" else 0.0
    return fixed + count * each + work.flops / rate + work.bytes / _MEMORY_RATE


def too_little(problem: Problem, request: Request) -> str | None:
    """Why the library answers for so little work, or None where a kernel is worth compiling."""
    if not request.spares_compiling or request.backend != "cpu" or problem.operation not in (*_PRODUCTS, *_FACTORS):
        return None
    return _not_earned(library_seconds(problem)) or _no_taller_than_wide(problem)


def _no_taller_than_wide(problem: Problem) -> str | None:
    """Why BLAS forms A^H B of matrices with no more rows than columns (times in docs/log/gram.md); None for others, and
    where kernels are asked for."""
    if problem.operation != "gram" or not settings.current().library_below:
        return None
    rows, columns = problem.K, max(problem.M, problem.N)
    if rows > columns:
        return None
    return f"{rows} rows and {columns} columns are not tall: BLAS forms such products as fast, and nothing is compiled"


# How many times the limit of libraries: sizes that are constants save a tenth to a half of the time
# (docs/first-calls.md), at the limit 0.1 to 0.3 ms, so that thousands of calls earn a compilation.
_OWN_KERNEL = 50
_KERNEL_RATES = {"lu": 2e9}  # operations per second of a core: eliminations wait for each other
_KERNEL_RATE = 10e9


# Rows, columns and depth of products beyond which BLAS takes as long as a kernel whose sizes are arguments; of complex
# matrices times vectors.
_WIDEST_PRODUCT, _WIDEST_COMPLEX = 16, 8


def kernel_seconds(problem: Problem) -> float:
    """Estimate the seconds that a kernel computes on one core."""
    work = family_of(problem.operation).work.work(problem)
    return work.flops / _KERNEL_RATES.get(problem.operation, _KERNEL_RATE) + work.bytes / _MEMORY_RATE


def any_sizes(problem: Problem, device: Device) -> Kernel | None:
    """The kernel whose sizes are arguments, where the work does not earn one for just these; None elsewhere."""
    family = family_of(problem.operation)
    config = family.runtime
    if config is None or device.backend != "cpu" or _suits_blas(problem):
        return None
    seconds, limit = kernel_seconds(problem), _OWN_KERNEL * settings.current().library_below * 1e-6
    if seconds >= limit or family.space.illegal(problem, config, device) is not None:
        return None
    reason = (
        f"about {units.duration(seconds, 2)} of work: sizes are arguments of one kernel, since one for these alone "
        "would not earn its compilation (tuning compiles and compares)"
    )
    return Kernel(config, reason)


def _suits_blas(problem: Problem) -> bool:
    """Whether BLAS multiplies such matrices one by one as fast as a kernel whose sizes are arguments."""
    if problem.operation not in _PRODUCTS:
        return False
    vectors = problem.operation == "gemv" and problem.is_complex
    return bool(max(problem.M, problem.N, problem.K) > (_WIDEST_COMPLEX if vectors else _WIDEST_PRODUCT))


def too_few_products(count: int) -> str | None:
    """Why NumPy multiplies the matrices of so short a list, or None where a kernel is worth compiling."""
    return _not_earned(count * _EACH_LISTED)


def _not_earned(seconds: float) -> str | None:
    """Why so much work does not earn the compilation of a kernel; None: it does."""
    limit = settings.current().library_below * 1e-6
    if seconds >= limit:
        return None
    calls = int(_COMPILING / limit)
    return (
        f"about {units.duration(seconds, 2)} of work: a kernel would not earn its compilation in {calls} calls "
        "(backend='cpu' compiles one all the same)"
    )
