"""Bytes and flops of `ragged_factor`, as far as they are known before sizes are."""

from __future__ import annotations

from typing import Any

from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs

ITEM_WORDS = 9  # RaggedItem in rows.hpp: int64 each
COPY_WORDS = 6  # CopyItem in kernel_copy.cuh: two int64 and eight int
UNPAD_WORDS = 3  # UnpadItem in kernel_unpad.cuh: two int64 and two int
_WORDS = {"copy": COPY_WORDS, "unpad": UNPAD_WORDS}


def work(problem: Problem) -> Work:
    """The least that is known before sizes are: the table, and one entry of each matrix and of its result."""
    return Work(
        read=problem.BATCH * (_WORDS.get(problem.method, ITEM_WORDS) * 8 + problem.itemsize),
        written=problem.BATCH * problem.itemsize,
        flops=problem.BATCH * (8 if problem.is_complex else 2),
        dtype=problem.dtype,
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block; one on CPUs."""
    return 1 if c.TARGET == "cpu" else 32 * int(c.WARPS)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Shared memory per block: none."""
    return 0


def registers(problem: Problem, c: Any) -> int:
    """Registers per thread of copies; those of CPUs are not counted."""
    return 0 if c.TARGET == "cpu" else 48


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """An entry per core or, on GPUs, four per thread."""
    return int(problem.itemsize) * (1 if c.TARGET == "cpu" else 4 * threads(problem, c) * c.BLOCKS_PER_SM)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes, as far as the problem states them."""
    return work(problem).flops


limits = costs.no_limits
reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth
