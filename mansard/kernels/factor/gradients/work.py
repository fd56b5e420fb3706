"""Bytes, flops, registers and shared memory of `gradients` and its configurations."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs
from ...common.configs import up
from ..lu import work as lu_work
from . import shapes

_EPILOGUE = {16: 16}  # registers that the product of a solution takes beyond lu's, by bytes of a number


def work(problem: Problem) -> Work:
    """A and G (and Y) once, F (and W) once; two products, three triangular ones, or an elimination and a product."""
    N, sides, batch = problem.N, problem.NRHS, problem.BATCH
    square = N * N
    is_solution = problem.want == "solution"
    read = square + (2 * N * sides if is_solution else square)
    written = square + (N * sides if is_solution else 0)
    products = {"cholesky": 3 * N * square // 2, "solution": N * square // 3 + 2 * square * sides}.get(
        problem.want, 2 * N * square
    )
    each = 8 if problem.is_complex else 2
    size = batch * problem.itemsize
    return Work(size * read, size * written, batch * products * each, problem.dtype)


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return 32 * int(c.WARPS)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    return shapes.shape(problem, c).shared_bytes


def tile(problem: Problem, c: Any) -> int:
    """32-bit registers of a lane's tile of a product."""
    return int(up(problem.N, c.LANES_M) * up(problem.N, c.LANES_N) * problem.itemsize // 4)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    words, N = problem.itemsize // 4, problem.N
    if c.VARIANT == "solution":
        of_lu = lu_work.registers(shapes.of_lu(problem), shapes.lu_config(c))
        return int(min(255, of_lu + _EPILOGUE.get(problem.itemsize, 0)))
    if c.VARIANT == "columns":
        ahead = words * N if problem.dtype == "float64" else 0  # numbers of L that are read before they are used
        return int(min(255, words * N + ahead + 54 + 2 * words))
    if c.VARIANT == "tensor":
        return int(max(costs.FP64_TENSOR_REGISTERS, 40 + 8 * up(N, 8) * (up(N, 16) + 1)))
    rows, columns = up(N, c.LANES_M), up(N, c.LANES_N)
    return int(min(255, words * (rows * columns + 2 * (rows + columns)) + 48))


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Thread blocks of a launch: a warp for each group of matrices."""
    return int(max(1, up(problem.BATCH, shapes.shape(problem, c).group * c.WARPS)))


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes that a multiprocessor has under way at once: A and G of all groups."""
    group = shapes.shape(problem, c).group
    of_matrix = work(problem).read // max(1, problem.BATCH)
    return int(c.WARPS * c.BLOCKS_PER_SM * group * of_matrix)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes; on tensor cores those of padded tiles, too."""
    if c.VARIANT != "tensor":
        return work(problem).flops
    tall, wide = up(problem.N, 16) * 16, up(problem.N, 8) * 8
    return int(2 * problem.BATCH * tall * wide * (up(problem.N, 4) * 4 + wide))


def pairs(problem: Problem) -> bool:
    """Whether pieces of 16 bytes of a row of F begin on 16-byte boundaries."""
    return bool(problem.aligned) and problem.N * problem.itemsize % 16 == 0


limits = costs.no_limits  # latencies of dependent steps, which the model does not see
reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth
