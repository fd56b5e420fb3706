"""Bytes, flops, threads and registers of `refinement` and its configurations."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs
from ...common.configs import up
from . import spec

_ROWS = 64  # of a part of a matrix: below, its rows are too few for the warps of a block
_PARTS = 2  # blocks per multiprocessor that share the rows of matrices which are fewer than blocks


def work(problem: Problem) -> Work:
    """A once and its rounded copy, or right-hand sides, solutions and corrections once."""
    full, size = problem.itemsize, int(problem.BATCH)
    if problem.want in spec.OF_MATRICES:
        entries = size * problem.N * problem.N
        written = 0 if problem.want == "norms" else entries * full // 2
        return Work(entries * full, written, entries, problem.dtype)
    entries = size * problem.N * problem.NRHS
    read = {"start": full, "update": 5 * full // 2, "judge": 2 * full}[problem.want]
    written = {"start": 3 * full // 2, "update": 2 * full, "judge": full // 2}[problem.want]
    return Work(entries * read, entries * written, 2 * entries, problem.dtype)


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return 32 * int(c.WARPS)


def shared_bytes(problem: Problem, c: Any) -> int:
    """No dynamic shared memory: a norm per warp is declared by the kernel."""
    return 0


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread."""
    return 56


def chunks(problem: Problem, device: Device) -> int:
    """Parts of the rows of a matrix, each of a block; one where the matrices are blocks enough."""
    wanted = up(_PARTS * max(1, device.multiprocessors), max(1, problem.BATCH))
    return int(max(1, min(wanted, problem.N // _ROWS)))


def parts(problem: Problem, device: Device) -> int:
    """CHUNKS of a launch: `whole` has one."""
    return 1 if problem.want == "whole" else chunks(problem, device)


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Thread blocks of a launch: one per matrix, or part of it; of `update`, for as many entries as it has threads."""
    items = int(problem.BATCH) * (parts(problem, device) if problem.want in spec.OF_MATRICES else 1)
    if problem.want == "update":
        items = up(items * problem.N * problem.NRHS, threads(problem, c))
    return int(max(1, min(1 << 30, items)))


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Two entries per lane."""
    return int(2 * threads(problem, c) * c.BLOCKS_PER_SM * problem.itemsize)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes."""
    return work(problem).flops


limits = costs.no_limits
reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth
