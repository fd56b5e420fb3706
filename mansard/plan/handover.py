"""Who answers instead of one kernel: rules that hold on every device, and records of the device at hand.

A rule's reason does not depend on the device: how often an element is used, what a launch or a compilation costs, what
fits into a cache. What was measured on one GPU is a record (`route_records.py`, and numbers of `measured.py`). A GPU
without records is judged by the model, or by assumptions that say so. `dispatch.candidates` asks these functions; calls
and `mansard explain` ask dispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .. import settings, units
from ..backends import cpu
from ..codegen.geometry import Device
from ..kernels import family_of
from ..kernels.batched.trsm import space as trsm_space
from ..kernels.batched.trsm import spec as trsm_spec
from ..kernels.common import measured
from ..machine import machine, roofline
from ..records import database
from . import few_matrices, first_calls, predict, route_records
from .problem import ITEMSIZE, Problem
from .route import OWN_ROUTINE, REFERENCE, Choice, Library, Origin, Request, Steps

PRODUCTS = ("gram", "tsmm", "tsm2r")
FACTORS = ("cholesky", "lu", "qr")
TWO_SIDED = ("jacobi", "tridiagonal", "bidiagonal", "sweeps", "divide", "back_transform")

# --- products of two matrices ------------------------------------------------------------------------------

_WIDEST = 128  # columns of a skinny matrix: more of them, and arithmetic is the limit, not memory
_TALL = 16  # rows per column, from which a matrix is tall: below, the result is no small part of what is moved
FEWEST_ON_CPUS = 2048  # rows of a tall matrix: less is over before a kernel of ours has begun
_SKINNY = 32  # columns of B: an element of A is used once for each, and beyond, arithmetic catches up with memory
# Assumptions where no record of the device has "LARGE" (tsm2r). Three TF32 products may form a float32 product, faster
# than a library's; other dtypes have the same units there and here, and go to the library.
_THREE_PRODUCTS = 4  # bytes of a float32 number, the one dtype with tensor cores that libraries do not use for it
_LARGE = 2048  # rows and columns of A: below, reading it takes no longer than a few launches
_LARGE_MANY = 16, 4096  # columns of B, and A's size from there: B and C, too, must be a small part of what is moved
_LARGE_VECTOR = 8192  # rows and columns for one column: a library's matrix times vector reads A only once, too
_NEVER = 1 << 62  # rows and columns that no matrix has
_LIBRARY_SHARE = 0.5  # assumed share of the roofline that a library reaches at tall shapes: none was measured there


def family_for(dtype: str, m: int, k: int, n: int, fewest: int = 0, device: Device | None = None) -> str | None:
    """Name the family that multiplies an (m, k) with a (k, n) matrix, by dtype and shape; None: the array library.

    How large A must be for `tsm2r` is a record of the device; without a device, or a record, it is assumed."""
    if max(m, n) <= _WIDEST and k >= max(_TALL * max(m, n), fewest):
        return "gram"
    if max(k, n) <= _WIDEST and m >= max(_TALL * max(k, n), fewest):
        return "tsmm"
    return "tsm2r" if n <= _SKINNY and min(m, k) >= _large(ITEMSIZE[dtype], n, device) else None


def _large(itemsize: int, columns: int, device: Device | None) -> int:
    """Rows and columns of A from which `tsm2r` is taken to be faster than a library."""
    large = _LARGE_VECTOR if columns == 1 else _LARGE_MANY[1] if columns > _LARGE_MANY[0] else _LARGE
    assumed = large if itemsize == _THREE_PRODUCTS else _NEVER
    if device is None:
        return assumed
    return measured.number("tsm2r", device, "LARGE", assumed, columns=columns, itemsize=itemsize)


def _is_rivalled(problem: Problem, request: Request) -> bool:
    """Whether `matmul` asks for a tall product on a GPU, where the library may be faster."""
    return request.operation == "matmul" and request.backend == "cuda" and problem.operation in PRODUCTS


def predicted_slower(problem: Problem, choice: Choice, request: Request) -> Iterator[Choice]:
    """The library, where a kernel that no record speaks for is predicted to be slower, on a GPU without records.

    Launching, and the reduction across blocks, are taken to cost a library as much as they cost the kernel."""
    if not _is_rivalled(problem, request) or choice.origin == "tuned" or route_records.find(problem, request.device):
        return
    ceilings, work, where = machine.known(request.device), choice.family.work, request.device
    own = predict.seconds(choice.family, problem, choice.config, where, ceilings)
    fixed = ceilings.launch_seconds + work.reduction_seconds(problem, choice.config, where, ceilings)
    other = fixed + roofline.time_bound(work.work(problem), ceilings).seconds / _LIBRARY_SHARE
    if own > other:
        share = f"a library at {100 * _LIBRARY_SHARE:.0f} % of the limit"
        reason = f"by the model our kernel takes {units.duration(own, 3)} and {share} {units.duration(other, 3)}"
        yield _library(problem, request, reason, "model")


# Cholesky QR on CPUs: what the host plans two steps with, some fifty calls of NumPy and the small matrices; and passes.
_PLANNING, _SMALL_MATRICES, _PASSING = 100e-6, 0.7e9, 20e9  # seconds; entries cubed, operations per second
# Householder QR by LAPACK: columns up to which it is bound by reading them, again for each; rates there and beyond
_NARROW_BLOCK, _REFLECTING = 8, (4e9, 8e9)


def short_block(problem: Problem, request: Request) -> Choice | None:
    """Householder QR by LAPACK for blocks on CPUs that it is done with before Cholesky QR has planned its steps."""
    rows, columns, words = problem.K, problem.N, 2 if problem.is_complex else 1
    if request.backend != "cpu" or not request.may_hand_over or columns == 0:
        return None
    products = words**2 * rows * columns**2
    reflecting = 4 * products / _REFLECTING[columns >= _NARROW_BLOCK]
    stepping = _PLANNING + words * columns**3 / _SMALL_MATRICES + 6 * products / _PASSING
    if reflecting > stepping:
        return None
    reason = f"about {units.duration(reflecting, 2)}, the steps of Cholesky QR {units.duration(stepping, 2)}"
    return Choice(family_of(problem.operation), Library("Householder QR by LAPACK", reason), "rule")


# --- batches of products -----------------------------------------------------------------------------------

SMALL = 32  # rows and columns up to which our kernels answer: less does not fill the tiles of general libraries
_EACH_PRODUCT = "numpy.dot, one matrix after the other"
_ON_CPUS: dict[bool | None, int] = {False: 160, True: 64}  # rows, columns; BLAS once per matrix, or once


def _wide_batch(problem: Problem, request: Request) -> Iterator[Choice]:
    """The library for wide products of a batch, unless a record speaks for a kernel."""
    widest = max(problem.M, problem.N, problem.K)
    most = _ON_CPUS.get(request.library_batches, SMALL) if request.backend == "cpu" else SMALL
    if request.operation != "gemm" or widest <= most or _is_tuned(problem, request):
        return
    if request.backend != "cuda" or not (_needs_copies(problem) or _keeps_the_host_busy(problem, request.device)):
        reason = f"{widest} rows or columns, and no record says that a kernel of ours is faster there"
        yield _library(problem, request, reason)


def _needs_copies(problem: Problem) -> bool:
    """Whether a library would copy an operand first: neither its rows nor its columns are adjacent in memory."""
    return "any" in (problem.layout_a, problem.layout_b, problem.layout_c)


_SHORT = 1 << 17  # multiply-adds of a product: a block is done with it before the host has called a library


def _keeps_the_host_busy(problem: Problem, device: Device) -> bool:
    """Whether a few small products take a GPU less time than a library's call takes the host."""
    return bool(device.multiprocessors >= problem.BATCH and problem.M * problem.N * problem.K <= _SHORT)


def lists_one_by_one(request: Request, count: int) -> Choice | None:
    """NumPy's products for short lists of matrices of different shapes on CPUs; None: a kernel reads them in place."""
    if request.backend != "cpu" or not request.may_hand_over:
        return None
    reason = first_calls.too_few_products(count)
    return Choice(family_of("ragged_gemm"), Library(_EACH_PRODUCT, reason), "rule") if reason else None


# --- rank-k updates ----------------------------------------------------------------------------------------

_BY_PRODUCT = "a product (gemm, or matmul), of which a triangle is copied"
_BUSY = 4  # multiprocessors per matrix: where more are idle, a product that is divided among all of them is faster
_LARGE_UPDATE = 1 << 26  # multiply-adds of a triangle: fewer are over before a second launch would begin
_WIDE_UPDATE = 160  # rows of updates on CPUs: more are large enough for BLAS to reach its full speed


def _updates(problem: Problem, request: Request) -> Iterator[Choice]:
    """A product for a few large updates on GPUs, which a few multiprocessors would compute, and on CPUs for single
    matrices, wide ones and numbers; unless a record speaks for a kernel."""
    if _is_tuned(problem, request):
        return
    if request.backend == "cuda":
        work = problem.N * problem.N // 2 * problem.K
        if request.device.multiprocessors > problem.BATCH * _BUSY and work > _LARGE_UPDATE:
            yield _library(problem, request, f"{problem.BATCH} updates of {problem.N} rows do not fill the device")
    elif request.backend == "cpu" and (problem.BATCH == 1 or not 1 < problem.N <= _WIDE_UPDATE):
        yield _library(problem, request, f"one matrix, numbers, or more than {_WIDE_UPDATE} rows: BLAS is as fast")


# --- triangular systems ------------------------------------------------------------------------------------

INVERTED = 32  # order of blocks that are inverted: the error of an inverse grows with its order
_FEW_SIDES = 8  # right-hand sides: with so few, products read all of A for little work, and one kernel reads it once
_MANY, _NARROW = 32, 16  # matrices; rows or columns: from and up to these a copy and gemm cost less than calls of BLAS
_WIDE = 160  # rows or columns of products on CPUs: beyond, BLAS, which works in blocks that caches hold
_BLOCK = {"float64": 128}  # unknowns of a diagonal block, elsewhere 64: tensor cores of float64 solve larger ones
ONE_BY_ONE = "SciPy's BLAS, one matrix after the other"


def block_order(problem: Problem) -> int:
    """Unknowns up to which one kernel of a GPU does best, and the order of blocks beyond."""
    return _BLOCK.get(problem.dtype, 64)


def _many_unknowns(problem: Problem, request: Request) -> Iterator[Choice]:
    """Blocks on GPUs, for more unknowns than a block has and more than a few right-hand sides. Few systems are solved
    by one kernel: several launches would take longer than its chain of rows."""
    if request.device.backend == "cpu" or not block_order(problem) < problem.N <= trsm_spec.widest(problem):
        return
    if trsm_space.is_few(problem, request.device):
        return
    if problem.NRHS > _FEW_SIDES and not _is_tuned(problem, request):
        many = f"{problem.N} unknowns, {problem.NRHS} right-hand sides"
        yield _blocks(problem, f"{many}, and no record says that one kernel is faster than products")


def _blocks(problem: Problem, reason: str, inverts: bool = False) -> Choice:
    order = INVERTED if inverts else block_order(problem)
    what = "inverted and multiplied by" if inverts else "solved by a kernel"
    text = f"blocks of {order} along the diagonal, {what}; products (gemm) for what lies beside them"
    return Choice(family_of(problem.operation), Steps(BLOCKS, text, reason, order), "rule")


def _wide_triangles(problem: Problem, request: Request) -> Iterator[Choice]:
    """BLAS for products of large triangles on CPUs."""
    if request.backend == "cpu" and max(problem.N, problem.NRHS) > _WIDE:
        yield _library(problem, request, f"more than {_WIDE} rows or columns")


# --- factorizations ----------------------------------------------------------------------------------------

# Rows or columns beyond which a matrix outgrows the second cache of a core, or is work enough for a whole GPU: the
# blocked routines of LAPACK and of the vendor spend their time in products then.
LIBRARY_FROM = {
    "cuda": {"cholesky": 1024, "lu": 1024, "qr": 1024},
    "cpu": {"cholesky": 1024, "lu": 512, "qr": 512},
}
_LARGE_MATRIX = 128  # rows or columns from which LAPACK has several cores work on one matrix with profit
_FEW = 1 << 26  # products of sizes up to which a kernel for just these is not worth its compilation
_FOLLOWED = (("lu", "solve"), ("lu", "inverse"), ("lu", "determinant"), ("lu", "logdet"), ("cholesky", "solve"))
BLOCKS, AFTER_FACTORS, BY_LIBRARY = "blocks", "factors", "library"
ROUTES = {
    BLOCKS: "blocks by kernels; triangular solves and products (gemm) for the rest",
    AFTER_FACTORS: "factors, then triangular solves (trsm)",
    BY_LIBRARY: "the array library, or LAPACK",
}


def suits_few(rows: int, columns: int, count: int) -> bool:
    """Whether matrices are large and so few that LAPACK is the better choice, even where kernels are faster."""
    if min(rows, columns) <= _LARGE_MATRIX:
        return False
    return 2 * count <= settings.current().threads or count * rows * columns * min(rows, columns) < _FEW


def _large_or_few(problem: Problem, request: Request) -> Iterator[Choice]:
    """The library for large matrices, and on CPUs for a few of them, unless a record speaks for a kernel."""
    rows, columns = (problem.N if problem.operation == "cholesky" else problem.M), problem.N
    on_cpu = request.backend == "cpu"
    large = max(rows, columns) > LIBRARY_FROM["cpu" if on_cpu else "cuda"][problem.operation]
    if not large and not (on_cpu and suits_few(rows, columns, problem.BATCH)):
        return
    if not _is_tuned(problem, request):
        reason = "faster than one kernel for matrices as large, or as few, as these, and no record says otherwise"
        yield _library(problem, request, reason)


def _steps(problem: Problem, reason: str, origin: Origin) -> Choice:
    """A factorization by blocks, or what follows from the factors."""
    name = AFTER_FACTORS if (problem.operation, problem.want) in _FOLLOWED else BLOCKS
    return Choice(family_of(problem.operation), Steps(name, ROUTES[name], reason), origin)


def _beyond_tiny(problem: Problem, request: Request) -> Iterator[Choice]:
    """The library, which stands for several launches, for systems of more rows than one launch factors and solves."""
    reason = few_matrices.beyond_tiny(problem, request)
    if reason and not _is_tuned(problem, request):
        yield _library(problem, request, reason)


_SOLVED_ON_CPUS = 128  # rows of systems: beyond, LAPACK's own blocks are as fast as factors and triangles by kernels


def _may_divide(problem: Problem, request: Request) -> bool:
    """Whether steps by kernels are faster than a library: on CPUs only many systems with many right-hand sides."""
    if request.backend != "cpu":
        return True
    return bool(problem.want == "solve" and problem.BATCH >= _MANY and problem.N <= _SOLVED_ON_CPUS)


_FEW_TINY = 32  # matrices: fewer do not fill the lanes of all cores, and LAPACK is done before a kernel pays


def _few_tiny(problem: Problem, request: Request) -> Iterator[Choice]:
    """LAPACK on CPUs for the eigenvalues and singular values of a few matrices, unless a record speaks for a kernel."""
    if request.backend == "cpu" and problem.BATCH < _FEW_TINY and not _is_tuned(problem, request):
        yield _library(problem, request, f"fewer than {_FEW_TINY} matrices: LAPACK is done before a kernel pays")


# --- what dispatch asks ------------------------------------------------------------------------------------


def settled(problem: Problem, request: Request) -> Iterator[Choice]:
    """Routes that neither pins nor records nor the caller's choice of a backend change."""
    if request.operation == "matmul" and problem.operation == "gemm":
        yield _library(problem, request, "neither operand is tall and skinny")
    if problem.operation != "trsm" or not request.operation:
        return
    if request.inverts and request.backend != REFERENCE:
        reason = f"diagonal blocks of order {INVERTED} are inverted, as asked: faster to apply, less accurate"
        yield _blocks(problem, reason, inverts=True)
    wide = trsm_spec.too_wide(problem.N, trsm_spec.WIDEST)
    if wide and request.device.backend == "cpu":
        yield _library(problem, request, wide)


def not_worth_compiling(problem: Problem, request: Request) -> Iterator[Choice]:
    """The library for work too little to earn a compilation, unless a record speaks for a kernel."""
    reason = first_calls.too_little(problem, request)
    if reason and not _is_tuned(problem, request):
        yield _library(problem, request, reason)


def faster_than_kernel(problem: Problem, request: Request) -> Iterator[Choice]:
    """Libraries and steps that a record of the device, or a rule, prefers to one kernel."""
    found = route_records.find(problem, request.device) if _has_records(problem, request) else None
    if found is not None and (found.is_final or not _is_tuned(problem, request)):
        if found.route == route_records.LIBRARY:
            yield _library(problem, request, found.reason, "tuned")
        elif found.route == route_records.STEPS:
            yield _steps(problem, found.reason, "tuned")
        else:
            return
    if problem.operation in _RULES:
        yield from _RULES[problem.operation](problem, request)


_RULES: dict[str, Callable[[Problem, Request], Iterator[Choice]]] = {
    "gemm": _wide_batch, "rank_k": _updates, "trsm": _many_unknowns, "trmm": _wide_triangles,
    "jacobi": _few_tiny, "systems": _beyond_tiny, **dict.fromkeys(FACTORS, _large_or_few),
}  # fmt: skip


def _has_records(problem: Problem, request: Request) -> bool:
    """Whether records of routes answer such requests. The emulator has blocks, but no library as a rival."""
    if problem.operation in ("trsm", "trmm"):
        return request.device.backend != "cpu"
    return _is_rivalled(problem, request) or (request.backend == "cuda" and problem.operation in (*FACTORS, "gemm"))


def without_kernel(problem: Problem, choice: Choice, request: Request) -> Choice:
    """The route where a family has no kernel: steps, if they are known and nobody named a library, or the library."""
    refused = choice.origin not in ("pinned", "tuned") and bool(request.operation)
    if refused and request.may_divide and problem.operation in FACTORS and _may_divide(problem, request):
        if reason := few_matrices.too_few(problem, request):
            return _library(problem, request, f"{choice.reason}; {reason}")
        return _steps(problem, choice.reason, choice.origin)
    if refused and problem.operation == "trsm" and request.device.backend != "cpu":
        widest = trsm_spec.widest(problem)
        if widest < problem.N:
            return _blocks(problem, f"{problem.N} unknowns, beyond {widest} no kernel takes them at once")
    return _library(problem, request, choice.reason, choice.origin)


def without_compiler(problem: Problem, request: Request) -> Choice:
    """The library, where the backend has no kernels."""
    return _library(problem, request, (cpu.unavailable() if request.on_cpu else None) or "the reference was asked for")


def _library(problem: Problem, request: Request, reason: str, origin: Origin = "rule") -> Choice:
    name = OWN_ROUTINE
    if problem.operation in (*FACTORS, *TWO_SIDED):
        name = ROUTES[BY_LIBRARY]
    elif problem.operation == "rank_k":
        name = _BY_PRODUCT
    elif problem.operation == "trsm":
        name = ONE_BY_ONE if request.on_cpu else "the array library's products, row by row"
    elif problem.operation == "trmm":
        one_by_one = request.on_cpu and (problem.BATCH < _MANY or max(problem.N, problem.NRHS) > _NARROW)
        name = ONE_BY_ONE if one_by_one else "a copy of the triangle, and a product"
    return Choice(family_of(problem.operation), Library(name, reason), origin)


def _is_tuned(problem: Problem, request: Request) -> bool:
    """Whether a tuning record speaks for the very shape: what it says is taken."""
    return database.best(problem, request.device, family_of(problem.operation)) is not None
