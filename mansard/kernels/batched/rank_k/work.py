"""Bytes, flops, registers and shared memory of a `rank_k` problem and its configurations."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device
from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs, sectors
from ...common.configs import up
from ..gemm.work_stream import SPLIT
from .shapes import oriented, tensor_shape, tiles_shape


def work(problem: Problem) -> Work:
    """The least a batch must move and compute: the factors, one triangle in sectors or all of C, the sums of one
    triangle."""
    N, K, batch, size = problem.N, problem.K, problem.BATCH, problem.itemsize
    factors = ("a", "b") if problem.two else ("a",)
    read = sum(1 if getattr(problem, f"stack_{side}") == "shared" else batch for side in factors) * N * K * size
    addresses = 8 * batch * sum(getattr(problem, f"stack_{side}") == "pointers" for side in (*factors, "c"))
    full = problem.part == "full"
    moved = sectors.triangle(problem, "c", "lower" if full else problem.part, N)
    old = moved.read if problem.accumulate else 0.0 if full else moved.filled  # a sector is read once for both
    return Work(
        read=read + round(batch * old) + addresses,
        written=batch * N * N * size if full else round(batch * moved.written),
        flops=(8 if problem.is_complex else 2) * len(factors) * N * (N + 1) // 2 * K * batch,
        dtype=problem.dtype,
    )


def shape_of(oriented: Problem, c: Any) -> Any:
    """How a block of a configuration uses its threads and its shared memory."""
    return (tensor_shape if c.VARIANT == "tensor" else tiles_shape)(oriented, c)


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(shape_of(oriented(problem), c).threads)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    return int(shape_of(oriented(problem), c).shared_bytes)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated: sums, rows of two sets, addresses."""
    words = problem.itemsize // 4
    if c.VARIANT == "tensor":
        return _tensor_registers(problem, c)
    shape = tiles_shape(oriented(problem), c)
    loaded = shape.step * (1 if shape.sets == 1 else 2) * c.TILE
    clamped = c.TILE if problem.N % c.TILE else 0
    spare = 8 * [shape.a.feed, shape.b.feed].count("elements") // 2 + (12 if problem.accumulate else 0)
    return int(words * (c.TILE * c.TILE + loaded)) + 36 + clamped + spare


def _tensor_registers(problem: Problem, c: Any) -> int:
    """Sums, fragments and addresses; in single precision sums of large and of small products, halves of fragments."""
    square, parts = tensor_shape(oriented(problem), c).side, 2 if problem.is_complex else 1
    ring = 0 if c.STAGES == 1 else 10 if c.BLK_K >= problem.K else 18
    more = (40 if problem.is_complex else 0) + ring + (8 if problem.accumulate else 0)
    if problem.dtype in SPLIT:
        return int(parts * (16 * square * square + 16 * square + 8)) + 20 + more
    held = int(2 * parts * (8 * square * square + c.KSTEP * square)) + 32 + more
    return max(costs.FP64_TENSOR_REGISTERS, held)


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Blocks per launch: one per group of matrices or part of a matrix; where they stay, as many as fit at once."""
    stays = c.VARIANT == "tensor" and c.STAGES == 2 and c.BLK_K >= problem.K
    most = device.multiprocessors * c.BLOCKS_PER_SM if stays else problem.BATCH * c.PARTS
    return int(max(1, min(up(problem.BATCH, c.GROUP) * c.PARTS, most)))


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes that a multiprocessor has under way at once: a block waits for its copies about two thirds of its time."""
    shape = shape_of(oriented(problem), c)
    return int(c.BLOCKS_PER_SM * shape.stage_bytes * (0.65 if c.STAGES == 1 else c.STAGES - 1))


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes: all entries of all tiles."""
    shape = shape_of(oriented(problem), c)
    each = (8 if problem.is_complex else 2) * (2 if problem.two else 1) * problem.K
    if c.VARIANT == "tensor":
        return int(each * shape.tiles * (16 * shape.side) ** 2 * problem.BATCH)
    return int(each * shape.tiles * c.PARTS * c.TILE * c.TILE * problem.BATCH)


limits = costs.no_limits
reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth
remarks = partial(costs.memory_bound, work)
