"""Bytes, flops, registers, shared memory and workspace of a sketch and its configurations."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs
from ...common.configs import up
from . import spec


def work(problem: Problem) -> Work:
    """The least that must be moved and computed: A read once, added to the rows of one group; Y written."""
    reals = problem.N * (2 if problem.is_complex else 1)
    return Work(
        read=problem.K * problem.N * problem.itemsize,
        written=spec.rows(problem.N) * problem.N * problem.itemsize,
        flops=2 * problem.K * spec.signs(problem.N) * reals,
        dtype=problem.dtype,
    )


def slots(problem: Problem) -> int:
    """Fragments of eight real columns in a row."""
    return up(problem.N * (2 if problem.is_complex else 1), 8)


def stage_bytes(problem: Problem, c: Any) -> int:
    """Bytes of a chunk."""
    return int(c.ROWS * problem.pitch_a * problem.itemsize)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Barriers, stages and what is read past them; or the sums of a block, which come afterwards."""
    if c.TARGET == "cpu":
        return 0
    side = 8 * slots(problem)
    ring = up(2 * c.STAGES * 8, 128) * 128 + c.STAGES * stage_bytes(problem, c) + side * 8
    sums = (spec.rows(problem.N) + side) * (side + 1) * 8
    return up(max(ring, sums, threads(problem, c) * 16), 128) * 128


def threads(problem: Problem, c: Any) -> int:
    """Threads per block: a warp for each group of Y."""
    return spec.GROUPS * 32


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated: sums of Y and of half of G, a step's operands in double precision."""
    count = slots(problem)
    tiles = sum(count - 2 * pair for pair in range(count // 2)) + count % 2
    return int(8 * count + 8 * tiles + 6 * count) + 48


def partial_entries(problem: Problem) -> int:
    """Entries that blocks add: of A^H A and of Y."""
    return int(problem.N**2 + spec.rows(problem.N) * problem.N)


limits = costs.no_limits


def reduction_seconds(problem: Problem, c: Any, device: Device, machine: Machine) -> float:
    """Seconds for the blocks to agree on both results."""
    entries = partial_entries(problem) * (16 if problem.is_complex else 8)
    return float(machine.grid_barrier_seconds + device.multiprocessors * entries / 2e12)


bandwidth_share = costs.full_bandwidth


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once."""
    return 1 << 12 if c.TARGET == "cpu" else (c.STAGES - 1) * stage_bytes(problem, c)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes: on GPUs those of A^H A too."""
    gram = 0 if c.TARGET == "cpu" else 8 * slots(problem) ** 2 * 8 * problem.K
    return work(problem).flops + gram
