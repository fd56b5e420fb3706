"""Rules for tall & skinny products: which family multiplies, and where a library is predicted to be faster."""

from __future__ import annotations

from collections.abc import Iterator

from .. import units
from ..codegen.geometry import Device
from ..kernels import family_of
from ..kernels.common import measured
from ..machine import machine, roofline
from . import predict, route_records
from .libraries import library
from .problem import ITEMSIZE, Problem
from .route import Choice, Library, Request

PRODUCTS = ("gram", "tsmm", "tsm2r")
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


def is_rivalled(problem: Problem, request: Request) -> bool:
    """Whether `matmul` asks for a tall product on a GPU, where the library may be faster."""
    return request.operation == "matmul" and request.backend == "cuda" and problem.operation in PRODUCTS


def predicted_slower(problem: Problem, choice: Choice, request: Request) -> Iterator[Choice]:
    """The library, where a kernel that no record speaks for is predicted to be slower, on a GPU without records.

    Launching, and the reduction across blocks, are taken to cost a library as much as they cost the kernel."""
    if not is_rivalled(problem, request) or choice.origin == "tuned" or route_records.find(problem, request.device):
        return
    ceilings, work, where = machine.known(request.device), choice.family.work, request.device
    own = predict.seconds(choice.family, problem, choice.config, where, ceilings)
    fixed = ceilings.launch_seconds + work.reduction_seconds(problem, choice.config, where, ceilings)
    other = fixed + roofline.time_bound(work.work(problem), ceilings).seconds / _LIBRARY_SHARE
    if own > other:
        share = f"a library at {100 * _LIBRARY_SHARE:.0f} % of the limit"
        reason = f"by the model our kernel takes {units.duration(own, 3)} and {share} {units.duration(other, 3)}"
        yield library(problem, request, reason, "model")


def pays_sketch(dtype: str, rows: int, columns: int, device: Device) -> bool:
    """Whether Cholesky QR on a GPU forms a sketch with the first Gram matrix.

    It costs every block one launch, and saves ill-conditioned ones two passes, which are worth it where a pass takes
    longer than a launch. The condition of one column is one."""
    ceilings = machine.known(device)
    passing = ITEMSIZE[dtype] * rows * columns / ceilings.copy_bandwidth
    return columns > 1 and passing > ceilings.launch_seconds


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
