"""Bytes, flops, shared memory, threads and registers of `divide` and its configurations."""

from __future__ import annotations

from math import ceil, log2
from typing import Any

from ....codegen.geometry import Device
from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs
from ...common.configs import up

_STEPS = 6  # of the secular equation, of random matrices


def work(problem: Problem) -> Work:
    """D and E once, W and Z once. Values: a bisection each; vectors: roots of secular equations and products."""
    N, entries = problem.N, problem.BATCH * problem.N
    vectors = problem.want == "vectors"
    length = N if problem.form == "tridiagonal" else 2 * N
    flops = (10 * _STEPS * 2 * N * N + 4 * N**3 // 3) if vectors else 4 * bits(problem) * N * length
    return Work(
        read=2 * entries * problem.itemsize,
        written=(entries + (entries * N if vectors else 0)) * problem.itemsize,
        flops=problem.BATCH * flops,
        dtype=problem.dtype,
    )


def bits(problem: Problem) -> int:
    """Binary digits that bisection finds: those of a number, and of six times the largest entry."""
    return 56 if problem.itemsize == 8 else 27


def padded(problem: Problem) -> int:
    """Rows in whole warps' shares of eight."""
    return up(problem.N, 8) * 8


def warps(problem: Problem) -> int:
    """Warps of `merge`: eight rows each."""
    return padded(problem) // 8


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(up(problem.N * c.LANES, 32) * 32 if c.VARIANT == "bisect" else 32 * c.WARPS)


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Thread blocks of a launch: one per matrix."""
    return max(1, int(problem.BATCH))


def shared_bytes(problem: Problem, c: Any) -> int:
    """Rows of the recurrence and bounds per warp, or MergeMemory."""
    if c.VARIANT == "bisect":
        length, chunk = problem.N * (1 if problem.form == "tridiagonal" else 2), 8 if problem.itemsize == 8 else 2
        return int((2 * up(length, chunk) * chunk + 3 * threads(problem, c) // 32) * problem.itemsize)
    rows, half = padded(problem), 1 << max(0, ceil(log2(problem.N)) - 1)
    numbers = rows * (max(2, half) + rows + 4 + 12)
    return int(numbers * problem.itemsize + (3 * rows + up(rows, 32)) * 4)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, from compiled kernels."""
    if c.VARIANT == "bisect":
        return 64
    wide = problem.itemsize == 8
    if problem.N <= 64:
        return 104 if wide else 80
    return 128 if wide else 96


limits = costs.no_limits  # chains of dependent operations, which the model does not see
reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Two entries per row of a block's matrix."""
    return int(2 * problem.N * c.BLOCKS_PER_SM * problem.itemsize)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes; more lanes per value take more parts of its interval."""
    if c.VARIANT == "merge":
        return work(problem).flops
    return int(work(problem).flops * c.LANES * ceil(bits(problem) / log2(c.LANES + 1)) // bits(problem))
