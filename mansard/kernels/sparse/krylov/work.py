"""Bytes, flops, registers and shared memory of an iteration's passes and their configurations."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs
from ...common.configs import up
from . import spec

_READ, _WRITTEN, _FLOPS = {"cg": 7, "minres": 10}, {"cg": 3, "minres": 5}, {"cg": 10, "minres": 16}  # per word


def work(problem: Problem) -> Work:
    """The least an iteration moves and computes beside the product with A."""
    words, bytes_each = spec.words(problem), spec.real(problem.dtype).itemsize
    method = problem.solver
    return Work(
        _READ[method] * words * bytes_each, _WRITTEN[method] * words * bytes_each, _FLOPS[method] * words, problem.dtype
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.BLOCK)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block: none."""
    return 0


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated: four packs for each that a thread loads at once."""
    return int(24 + 16 * c.DEPTH)


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Blocks per launch: as many as are resident, or as there is work."""
    packs = up(spec.words(problem) * spec.real(problem.dtype).itemsize, 16)
    return max(1, min(device.multiprocessors * int(c.BLOCKS_PER_SM), up(packs, c.BLOCK * c.DEPTH)))


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes that a multiprocessor has under way at once: the packs of two vectors at the least."""
    return 1 << 12 if c.TARGET == "cpu" else int(c.BLOCK * c.BLOCKS_PER_SM * 2 * 16 * c.DEPTH)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernels execute: those of the problem."""
    return work(problem).flops


limits = costs.no_limits
reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth
