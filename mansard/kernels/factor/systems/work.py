"""Bytes, flops, shared memory, threads and registers of `systems` and its configurations."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs
from ...common.configs import up
from . import spec

_LANES = {"columns": "TEAM", "residuals": "LANES_N"}  # parameter of a configuration
_THREADS = 1024  # lanes per multiprocessor that hide each other's latency: half of what it has room for


def work(problem: Problem) -> Work:
    """A, B and X once (X is read for residuals); a third or two of N^3, then N^2 for each right-hand side."""
    M, N, sides = problem.M, problem.N, problem.NRHS
    read, written, each = M * N + M * sides, N * sides, 8 if problem.is_complex else 2
    products = M * N * sides if problem.want == "residuals" else N * N * sides
    if problem.want == "check":
        return Work(read=4 * problem.BATCH, written=4, flops=problem.BATCH, dtype=problem.dtype)
    if problem.want in spec.NUMBERS:
        read, written, products = N, 1, N
    elif problem.want == "residuals":
        read, written = read + N * sides, sides
    elif problem.want not in spec.FACTORED:
        products += N**3 // (6 if problem.want == "positive" else 3)
    return Work(
        read=problem.BATCH * read * problem.itemsize,
        written=problem.BATCH * written * problem.itemsize,
        flops=problem.BATCH * products * each,
        dtype=problem.dtype,
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return 32 * int(c.WARPS)


def lanes(c: Any) -> int:
    """Lanes of a team, or along columns; a whole warp for determinants."""
    return int(getattr(c, _LANES[c.VARIANT])) if c.VARIANT in _LANES else 32


def pitch(problem: Problem) -> int:
    """Entries between rows of a matrix in shared memory: odd, so that rows begin in different banks."""
    return int(problem.N) | 1


def shared_bytes(problem: Problem, c: Any) -> int:
    """A matrix and the order of its rows per team of `columns`; no other kernel has any."""
    if c.VARIANT != "columns":
        return 0
    matrix = problem.N * pitch(problem) * problem.itemsize
    return int(32 * c.WARPS // lanes(c) * (matrix + up(problem.N * 4, 16) * 16))


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread: a right-hand side, a column of the factors under way, and addresses."""
    words = problem.itemsize // 4
    if c.VARIANT != "columns":
        return 64 + 16 * words if c.VARIANT == "residuals" else 56
    return int(min(255, 56 + words * (3 * problem.N // 2 + 12)))


def sides(problem: Problem, c: Any, device: Device) -> int:
    """Right-hand sides that a team of `columns` solves for: where matrices are too few to fill the GPU, several teams
    factor the same matrix and have a part of its right-hand sides each."""
    team = lanes(c)
    turns = up(max(1, problem.NRHS), team)
    teams = up(_THREADS * device.multiprocessors, team * max(1, problem.BATCH))
    return int(up(turns, min(turns, teams)) * team)


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Thread blocks of a launch: a warp for so many items, at most what a grid has room for."""
    if c.VARIANT == "check":
        return 1
    if c.VARIANT == "determinants":
        items, of_warp = problem.BATCH, 1
    elif c.VARIANT == "residuals":
        items, of_warp = problem.BATCH * up(problem.NRHS, c.LANES_N), 1
    else:
        items, of_warp = problem.BATCH * up(problem.NRHS, sides(problem, c, device)), 32 // c.TEAM
    return int(max(1, min(1 << 30, up(up(items, of_warp), c.WARPS))))


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Two entries per lane."""
    return int(2 * threads(problem, c) * c.BLOCKS_PER_SM * problem.itemsize)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes, where every matrix is factored once."""
    return work(problem).flops


limits = costs.no_limits  # latencies of dependent steps, which the model does not see
reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth
