"""Bytes, flops, shared memory, threads and registers of `back_transform` and its configurations."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....machine.roofline import Work
from ....plan.problem import ITEMSIZE, REAL, Problem
from ...common import costs
from ...common.configs import up

_ROTATIONS = 0.8  # times N^2, of random matrices


def work(problem: Problem) -> Work:
    """V (half of it), values and rotations once, Z once; Q from its reflectors, then the rotations of its columns."""
    N, words, real = problem.N, 2 if problem.is_complex else 1, ITEMSIZE[REAL[problem.dtype]]
    rotations = int(_ROTATIONS * N * N) if problem.CAPACITY else 0
    return Work(
        read=problem.BATCH * (N * (N + 1) // 2 * problem.itemsize + (2 * rotations + 2 * N) * real),
        written=problem.BATCH * (N * N * problem.itemsize + N * real),
        flops=problem.BATCH * (2 * N**3 * words * words + 8 * rotations * N * words),
        dtype=REAL[problem.dtype],
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.WARPS * 32)


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Thread blocks of a launch."""
    if c.VARIANT == "lanes":
        return max(1, up(problem.BATCH, c.WARPS * 32 // c.LANES))
    return max(1, int(problem.BATCH) * parts(problem, c))


def parts(problem: Problem, c: Any) -> int:
    """Blocks per matrix."""
    components = problem.N * (2 if problem.is_complex else 1)
    return up(components, 32) if c.VARIANT == "warps" else up(components * c.SPLIT, c.WARPS * 32)


def columns(problem: Problem, c: Any) -> int:
    """Columns of a row in one lane."""
    if c.VARIANT == "warps":
        return int(up(problem.N, 2 * c.WARPS) * 2)
    return int(problem.N if c.VARIANT == "lanes" or c.SPLIT == 1 else up(problem.N, 2 * c.SPLIT) * 2)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Memory of all teams of a block (TeamMemory), or of the block (BlockMemory, WarpsMemory)."""
    words, real = 2 if problem.is_complex else 1, ITEMSIZE[REAL[problem.dtype]]
    N, capacity, pitch_z = problem.N, problem.CAPACITY, (problem.N | 1) * words
    if c.VARIANT == "lanes":
        padded = up(N, 2) * 2
        numbers = N * max(padded * words, pitch_z) + (12 * padded if capacity else 0) + padded
        team = up(numbers * real + (padded + up(capacity, 2) * 2) * 4, 16) * 16
        return int(c.WARPS * 32 // c.LANES * team)
    width, padded = columns(problem, c), up(N, 4) * 4
    image = 0 if problem.side in ("right", "product") else 16 // words * pitch_z
    if c.VARIANT == "warps":
        whole = c.WARPS * width
        staged = 8 * (whole * words + 1) + (16 * whole if capacity else 0)
        return int((up(max(staged, image), 4) * 4 + 128 * c.WARPS + padded) * real + (padded + capacity) * 4)
    staged = 8 * (up(c.SPLIT * width, 2) * 2 * words + 1)
    if capacity:
        staged += 2 * (12 if c.SPLIT > 2 else 8) * (width + (c.SPLIT > 1)) * c.SPLIT
    return int((up(max(staged, image), 4) * 4 + padded) * real + (padded + capacity) * 4)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, from compiled kernels."""
    words, real = 2 if problem.is_complex else 1, ITEMSIZE[REAL[problem.dtype]] // 4
    rows, more = (up(problem.N * words, c.LANES), 44) if c.VARIANT == "lanes" else (1, 32)
    sums = 0 if words == 1 else 24 if rows == 1 else 32  # products with both components of a reflector
    return int(rows * columns(problem, c) * real + more + sums)


limits = costs.no_limits  # latency and shared memory, which the model does not see
reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Two entries per thread."""
    return int(threads(problem, c) * c.BLOCKS_PER_SM * 2 * problem.itemsize)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes: those of the problem."""
    return work(problem).flops
