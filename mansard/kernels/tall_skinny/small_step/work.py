"""Shared memory, threads and registers of a step."""

from __future__ import annotations

from typing import Any

from ....plan.problem import Problem
from ...common.configs import up


def shared_bytes(problem: Problem, c: Any) -> int:
    """Two matrices of odd pitch, two lines in whole teams of eight, a vector of reals, a number per warp."""
    n, wide = problem.N, 16 if problem.is_complex else 8
    return int(up((2 * n * (n | 1) + 16 * up(n, 8)) * wide + n * 8 + 256, 128) * 128)


def threads(problem: Problem, c: Any) -> int:
    """Threads of the block."""
    return int(c.BLOCK)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread; compilers make do with what there is."""
    return 64
