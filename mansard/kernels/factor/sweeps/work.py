"""Bytes, flops, shared memory, threads and registers of `sweeps` and its configurations."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs
from ...common.configs import up

_ROTATIONS = {"values": 1.25, "rotations": 0.8}  # times N^2, of random matrices: without and with known shifts
_FLOPS = {"tridiagonal": 20, "bidiagonal": 36}  # of a rotation, or of a pair of a left and a right one


def work(problem: Problem) -> Work:
    """D and E once, W once, and the records of the rotations."""
    entries, rotations = problem.BATCH * problem.N, int(_ROTATIONS[problem.want] * problem.BATCH * problem.N**2)
    sides = 1 if problem.form == "tridiagonal" else 2
    records = 2 * sides * rotations if problem.want == "rotations" else 0
    return Work(
        read=2 * entries * problem.itemsize,
        written=(entries + records) * problem.itemsize,
        flops=_FLOPS[problem.form] * rotations,
        dtype=problem.dtype,
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.THREADS)


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Thread blocks of a launch."""
    return max(1, up(problem.BATCH, matrices(problem, c)))


def shared_bytes(problem: Problem, c: Any) -> int:
    """D and E of every matrix, with a pitch of a matrix more."""
    return int(up(2 * problem.N * (matrices(problem, c) + 1) * problem.itemsize, 128) * 128)


def matrices(problem: Problem, c: Any) -> int:
    """Matrices per block: one per thread; a half or a quarter where a warp's share of shared memory holds no more."""
    if c.MATRICES_PER_BLOCK:
        return int(c.MATRICES_PER_BLOCK)
    diagonal = problem.N * problem.itemsize
    return int(c.THREADS if diagonal <= _DIAGONAL else min(c.THREADS, 32 // up(diagonal, _DIAGONAL)))


_DIAGONAL = 1024  # bytes of a diagonal up to which three blocks of 32 matrices share a multiprocessor


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, from compiled kernels."""
    wide = problem.itemsize == 8
    if problem.form == "bidiagonal":
        return 80 if wide else 56
    return 64 if wide else 48


limits = costs.no_limits  # a chain of dependent operations, which the model does not see
reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """One entry per thread."""
    return int(c.THREADS * c.BLOCKS_PER_SM * problem.itemsize)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes: those of the problem."""
    return work(problem).flops
