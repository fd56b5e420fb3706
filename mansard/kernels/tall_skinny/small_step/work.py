"""Bytes, flops, shared memory, threads and registers of a step."""

from __future__ import annotations

from typing import Any

from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs
from ...common.configs import up
from ..sketch import spec as sketch


def work(problem: Problem) -> Work:
    """The least a step must move and compute: G once, S and R once; a factor, its inverse, and a product of factors."""
    entries, flops = problem.N**2, 4 * problem.N**3 // 3
    return Work(
        read=entries * problem.itemsize,
        written=2 * entries * problem.itemsize,
        flops=int((4 if problem.is_complex else 1) * flops),
        dtype=problem.dtype,
    )


def shared_bytes(problem: Problem, c: Any) -> int:
    """Two matrices of odd pitch, two lines in whole teams of eight, a vector of reals, a number per warp. From a
    sketch: two columns of it and of N more rows, norms, two numbers per warp."""
    n, wide = problem.N, 16 if problem.is_complex else 8
    if problem.sketched:
        return int(up(2 * 8 * (sketch.rows(n) // 8 + up(n, 8)) * wide + n * 8 + 256, 128) * 128)
    return int(up((2 * n * (n | 1) + 16 * up(n, 8)) * wide + n * 8 + 256, 128) * 128)


def threads(problem: Problem, c: Any) -> int:
    """Threads of the block."""
    return int(c.BLOCK)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread; compilers make do with what there is. From a sketch: a column by eight lanes."""
    if problem.sketched:
        return 48 + (4 if problem.is_complex else 2) * (sketch.rows(problem.N) // 8 + up(problem.N, 8))
    return 64


limits = costs.no_limits  # of these kernels the model knows nothing more


reduction_seconds = costs.no_reduction


bandwidth_share = costs.full_bandwidth


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """One entry per thread."""
    return int(c.BLOCK * problem.itemsize)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes: those of the problem."""
    return work(problem).flops
