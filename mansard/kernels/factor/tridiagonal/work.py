"""Bytes, flops, registers and shared memory of a tridiagonal problem and its configurations."""

from __future__ import annotations

from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs
from ...common.configs import up
from ..two_sided import reductions
from ..two_sided.reductions import Config, Lanes, Panels, slices, vector_bytes, words


def work(problem: Problem) -> Work:
    """The least a batch must move and compute: a triangle of A once, T, and with vectors V; 4/3 n^3 flops."""
    N, itemsize = problem.N, problem.itemsize
    real = itemsize // 2 if problem.is_complex else itemsize
    vectors = itemsize * (N * N + (N if problem.is_complex else 0)) if problem.want == "vectors" else 0
    return Work(
        read=problem.BATCH * itemsize * N * (N + 1) // 2,
        written=problem.BATCH * (vectors + real * (2 * N + 1) + 4),
        flops=int((4 if problem.is_complex else 1) * problem.BATCH * 4 * N**3 // 3),
        dtype=problem.dtype,
    )


PANEL_VECTORS = 2  # kinds of vectors of a panel: u, q
threads = reductions.threads
blocks = reductions.blocks
bytes_in_flight = reductions.bytes_in_flight
limits = costs.no_limits
reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth


def shared_bytes(problem: Problem, c: Config) -> int:
    """Dynamic shared memory per block: an image of each matrix, later three vectors; or the vectors of a block."""
    if isinstance(c, Panels):
        return reductions.panel_bytes(problem, c, PANEL_VECTORS)
    if isinstance(c, Lanes):
        image = problem.N * (problem.N | 1)
        vectors = 3 * vector_bytes(problem, reductions.rows(problem, c)) // problem.itemsize
        later = vectors + up(2 * problem.N, 1 + problem.is_complex)
        return reductions.matrices(c) * vector_bytes(problem, max(image, later))
    s = slices(problem, c)
    folded = c.WARPS >= 6 and s.own <= 32 and s.own & (s.own - 1) == 0  # as kernel_block.cuh has it
    parts = s.rows if folded else 32 * s.columns * c.WARPS
    entries = 3 * s.rows + parts + 2 * s.rows * c.WARPS
    return vector_bytes(problem, entries) + up(8 * c.WARPS, 16) * 16


def registers(problem: Problem, c: Config) -> int:
    """32-bit registers per thread, estimated."""
    if isinstance(c, Panels):
        return reductions.panel_registers(problem)
    if isinstance(c, Lanes):
        held = words(problem) * up(problem.N, c.LANES) * reductions.rows(problem, c)
        vectors = 16 if words(problem) > 2 else 0  # x, y, u and q of a complex column
        return int(held + vectors + (48 if held <= 64 else 32 if held <= 96 else 40))
    s = slices(problem, c)
    return int(words(problem) * (s.held + 4 * s.columns) + 16)


def executed_flops(problem: Problem, c: Config) -> int:
    """Flops that the kernel executes: both triangles."""
    return int(work(problem).flops * 3 // 2)
