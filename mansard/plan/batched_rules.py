"""Rules for batches of products, updates and triangular systems: where libraries or blocks answer, not one kernel."""

from __future__ import annotations

from collections.abc import Iterator

from ..codegen.geometry import Device
from ..kernels import family_of
from ..kernels.batched.trsm import space as trsm_space
from ..kernels.batched.trsm import spec as trsm_spec
from . import first_calls
from .libraries import BLOCKS, is_tuned, library
from .problem import Problem
from .route import Choice, Library, Request, Steps

SMALL = 32  # rows and columns up to which our kernels answer: less does not fill the tiles of general libraries
_EACH_PRODUCT = "numpy.dot, one matrix after the other"
_ON_CPUS: dict[bool | None, int] = {False: 160, True: 64}  # rows, columns; BLAS once per matrix, or once


def wide_batch(problem: Problem, request: Request) -> Iterator[Choice]:
    """The library for wide products of a batch, unless a record speaks for a kernel."""
    widest = max(problem.M, problem.N, problem.K)
    most = _ON_CPUS.get(request.library_batches, SMALL) if request.backend == "cpu" else SMALL
    if request.operation != "gemm" or widest <= most or is_tuned(problem, request):
        return
    if request.backend != "cuda" or not (_needs_copies(problem) or _keeps_the_host_busy(problem, request.device)):
        reason = f"{widest} rows or columns, and no record says that a kernel of ours is faster there"
        yield library(problem, request, reason)


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

_BUSY = 4  # multiprocessors per matrix: where more are idle, a product that is divided among all of them is faster
_LARGE_UPDATE = 1 << 26  # multiply-adds of a triangle: fewer are over before a second launch would begin
_WIDE_UPDATE = 160  # rows of updates on CPUs: more are large enough for BLAS to reach its full speed


def updates(problem: Problem, request: Request) -> Iterator[Choice]:
    """A product for a few large updates on GPUs, which a few multiprocessors would compute, and on CPUs for single
    matrices, wide ones and numbers; unless a record speaks for a kernel."""
    if is_tuned(problem, request):
        return
    if request.backend == "cuda":
        work = problem.N * problem.N // 2 * problem.K
        if request.device.multiprocessors > problem.BATCH * _BUSY and work > _LARGE_UPDATE:
            yield library(problem, request, f"{problem.BATCH} updates of {problem.N} rows do not fill the device")
    elif request.backend == "cpu" and (problem.BATCH == 1 or not 1 < problem.N <= _WIDE_UPDATE):
        yield library(problem, request, f"one matrix, numbers, or more than {_WIDE_UPDATE} rows: BLAS is as fast")


# --- triangular systems ------------------------------------------------------------------------------------

INVERTED = 32  # order of blocks that are inverted: the error of an inverse grows with its order
_FEW_SIDES = 8  # right-hand sides: with so few, products read all of A for little work, and one kernel reads it once
_WIDE = 160  # rows or columns of products on CPUs: beyond, BLAS, which works in blocks that caches hold
_BLOCK = {"float64": 128}  # unknowns of a diagonal block, elsewhere 64: tensor cores of float64 solve larger ones


def block_order(problem: Problem) -> int:
    """Unknowns up to which one kernel of a GPU does best, and the order of blocks beyond."""
    return _BLOCK.get(problem.dtype, 64)


def many_unknowns(problem: Problem, request: Request) -> Iterator[Choice]:
    """Blocks on GPUs, for more unknowns than a block has and more than a few right-hand sides. Few systems are solved
    by one kernel: several launches would take longer than its chain of rows."""
    if request.device.backend == "cpu" or not block_order(problem) < problem.N <= trsm_spec.widest(problem):
        return
    if trsm_space.is_few(problem, request.device):
        return
    if problem.NRHS > _FEW_SIDES and not is_tuned(problem, request):
        many = f"{problem.N} unknowns, {problem.NRHS} right-hand sides"
        yield blocks(problem, f"{many}, and no record says that one kernel is faster than products")


def blocks(problem: Problem, reason: str) -> Choice:
    return _along_diagonal(problem, reason, block_order(problem), "solved by a kernel")


def inverted_blocks(problem: Problem) -> Choice:
    reason = f"diagonal blocks of order {INVERTED} are inverted, as asked: faster to apply, less accurate"
    return _along_diagonal(problem, reason, INVERTED, "inverted and multiplied by")


def _along_diagonal(problem: Problem, reason: str, order: int, what: str) -> Choice:
    text = f"blocks of {order} along the diagonal, {what}; products (gemm) for what lies beside them"
    return Choice(family_of(problem.operation), Steps(BLOCKS, text, reason, order), "rule")


def wide_triangles(problem: Problem, request: Request) -> Iterator[Choice]:
    """BLAS for products of large triangles on CPUs."""
    if request.backend == "cpu" and max(problem.N, problem.NRHS) > _WIDE:
        yield library(problem, request, f"more than {_WIDE} rows or columns")
