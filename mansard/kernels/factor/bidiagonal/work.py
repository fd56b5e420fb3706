"""Bytes, flops, registers and shared memory of a bidiagonal problem and its configurations."""

from __future__ import annotations

from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs
from ...common.configs import up
from ..two_sided import reductions
from ..two_sided.reductions import Block, Config, Panels, slices, vector_bytes, words


def work(problem: Problem) -> Work:
    """The least a batch must move and compute: A once, B, and with vectors U and V; 8/3 n^3 flops."""
    N, itemsize = problem.N, problem.itemsize
    real = itemsize // 2 if problem.is_complex else itemsize
    vectors = 2 * (itemsize * N * N + N * (real + itemsize * problem.is_complex)) if problem.want == "vectors" else 0
    return Work(
        read=problem.BATCH * itemsize * N * N,
        written=problem.BATCH * (vectors + real * (2 * N + 1) + 4),
        flops=int((4 if problem.is_complex else 1) * problem.BATCH * 8 * N**3 // 3),
        dtype=problem.dtype,
    )


PANEL_VECTORS = 4  # kinds of vectors of a panel: u, y, x, w
threads = reductions.threads
blocks = reductions.blocks
bytes_in_flight = reductions.bytes_in_flight
limits = costs.no_limits
reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth


def shared_bytes(problem: Problem, c: Config) -> int:
    """Dynamic shared memory per block: two vectors and four lines of reals per matrix; or the vectors of a block."""
    if isinstance(c, Panels):
        return reductions.panel_bytes(problem, c, PANEL_VECTORS)
    if isinstance(c, Block):
        s = slices(problem, c, powers=True)
        entries = 2 * (s.rows + 32 * s.columns) + (32 * s.columns + s.own) * c.WARPS
        return vector_bytes(problem, entries) + up(8 * c.WARPS, 16) * 16
    vectors = 2 * vector_bytes(problem, reductions.rows(problem, c)) // problem.itemsize
    return reductions.matrices(c) * vector_bytes(problem, vectors + up(4 * problem.N, 1 + problem.is_complex))


def registers(problem: Problem, c: Config) -> int:
    """32-bit registers per thread, estimated: its share of A, products of its rows, and what a step needs besides."""
    if isinstance(c, Panels):
        return reductions.panel_registers(problem)
    if isinstance(c, Block):
        s = slices(problem, c, powers=True)
        return words(problem) * (s.held + s.own) + 4 * s.columns + 24
    held = words(problem) * up(problem.N, c.LANES) * reductions.rows(problem, c)
    return int(held + words(problem) * problem.N // 2 + 40)


def executed_flops(problem: Problem, c: Config) -> int:
    """Flops that the kernel executes: those of the problem."""
    return work(problem).flops
