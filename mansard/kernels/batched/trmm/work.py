"""Bytes, flops, registers and shared memory of a trmm problem and its configurations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import REAL, Problem
from ...common import costs, sectors
from ...common.configs import up
from ..trsm import work as systems
from .work_shapes import block_shape, lanes_shape

reduction_seconds = costs.no_reduction


def work(problem: Problem) -> Work:
    """The least a batch of products must move and compute: one triangle of each A in sectors, B once, X once."""
    least, order, size = systems.work(problem), problem.N, problem.itemsize
    count = 1 if problem.stack_a == "shared" else problem.BATCH
    plain = count * size * (order * (order - 1 if problem.unit else order + 1) // 2)
    moved = sectors.triangle(problem, "a", problem.uplo, order).read
    return replace(least, read=least.read - plain + round(count * moved))


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    if c.VARIANT == "lanes":
        return int(c.WARPS * 32)
    return int(c.DIM_X * c.DIM_Y if c.VARIANT == "block" else c.WARPS_M * c.WARPS_N * 32)


def _shape(problem: Problem, c: Any) -> Any:
    return lanes_shape(problem, c) if c.VARIANT == "lanes" else block_shape(problem, c)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    return int(_shape(problem, c).shared_bytes)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated: sums, entries of A and B of a step, addresses."""
    shape, words = _shape(problem, c), problem.itemsize // 4
    if c.VARIANT == "tensor":  # sums, fragments of A and B
        return int(max(126, 8 * words * shape.rows * shape.columns + words * (4 + 4 * shape.columns) + 74))
    feeds = (shape.a.feed, shape.b.feed).count("elements") + (c.VARIANT == "lanes" and shape.x.feed == "elements")
    held = words * (shape.rows * shape.columns + shape.step * (shape.columns + 2))
    held += 12 if problem.dtype == "complex128" else 0
    return int(held + 54 + 6 * feeds + (10 * bool(c.TRIANGLE) if c.VARIANT == "lanes" else 12))


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Blocks per launch: as many as are resident where they stay, as many as there is work where they come and go."""
    shape, staying = _shape(problem, c), False
    if c.VARIANT != "lanes":
        needed = problem.BATCH * shape.tiles * (shape.blocks if c.SPLIT else 1)
    else:
        needed = up(problem.BATCH, shape.group * c.WARPS)
        staying = c.STAGES > 1 or "shared" in (problem.stack_a, problem.stack_b)
    return int(max(1, min(needed, device.multiprocessors * c.BLOCKS_PER_SM if staying else _MOST_BLOCKS)))


_MOST_BLOCKS = 1 << 30


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    real = REAL[problem.dtype]
    rate = 0.8 * float(machine.tensor.get(real, machine.fma[real]) if c.VARIANT == "tensor" else machine.fma[real])
    clocks = device.multiprocessors * _CLOCK / max(1, problem.BATCH)  # per matrix
    return {
        "arithmetic": executed_flops(problem, c) / rate,
        "instructions": issued(problem, c) / 4 / clocks,
        "shared memory": crossed(problem, c) / clocks,
    }


def _steps_of_warps(problem: Problem, c: Any) -> float:
    """Steps along A of all warps of a matrix, counted as if each had all rows of its lanes."""
    shape = _shape(problem, c)
    if c.VARIANT == "lanes":
        return float((0.5 + 0.5 * _halved(c.LANES_M, problem.N)) * problem.N * c.PER_TEAM / shape.group)
    beside = shape.blocks * (shape.blocks - 1) / 2
    lanes = 16 * c.WARPS_M if c.VARIANT == "tensor" else c.DIM_Y
    on = (0.5 + 0.5 * _halved(lanes, shape.order)) * shape.blocks
    return float((beside + on) * shape.order * shape.tiles * threads(problem, c) / 32)


def _halved(lanes: int, order: int) -> float:
    """The share of a slot in all rows: slots that hold the diagonal are computed in full."""
    return min(1.0, lanes / max(1, order))


def issued(problem: Problem, c: Any) -> float:
    """Instructions of all warps for a matrix: products, reads of shared memory, copies."""
    shape, words = _shape(problem, c), 2 if problem.is_complex else 1
    moved = (problem.N + 2 * problem.NRHS) * problem.N * problem.itemsize / 512
    if c.VARIANT == "tensor":  # per column of A: a quarter of an instruction for 8 of them, per tile
        each = shape.rows * shape.columns * words * words / 4 + (shape.rows + shape.columns) / 2
        return float(_steps_of_warps(problem, c) * each + moved * _COPY_INSTRUCTIONS + 40)
    products = shape.rows * shape.columns * words * words
    reads = shape.rows / shape.a.read + shape.columns / shape.b.read
    return float(_steps_of_warps(problem, c) * (products + reads + 1) + moved * _COPY_INSTRUCTIONS + 40)


def crossed(problem: Problem, c: Any) -> float:
    """Accesses to shared memory of all warps for a matrix."""
    moved = (problem.N / 2 + 2 * problem.NRHS) * problem.N * problem.itemsize / 128
    return float(_steps_of_warps(problem, c) * _shape(problem, c).wavefronts + moved)


_COPY_INSTRUCTIONS, _CLOCK = 8, 1.75e9  # per 16-byte copy of a warp; the clock under load


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that loads and stores reach, with what is read of the other triangle."""
    least, shape = work(problem), _shape(problem, c)
    if not least.bytes:
        return 1.0
    moved, line = float(least.bytes), problem.N * problem.itemsize
    if problem.stack_a != "shared":  # memory moves 64 bytes at a time
        half = c.VARIANT != "lanes" or c.TRIANGLE
        beside = min(line - problem.itemsize, 64 if half else line) / 2 * problem.N
        moved += problem.BATCH * beside * (1 if c.VARIANT == "lanes" else shape.tiles)
    return float(0.85 ** (shape.a.feed == "elements") * 0.9 ** (shape.b.feed == "elements") * least.bytes / moved)


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    shape = _shape(problem, c)
    if c.VARIANT == "lanes":
        return int(c.BLOCKS_PER_SM * c.WARPS * shape.stage_bytes * (0.65 if c.STAGES == 1 else c.STAGES - 0.7))
    return int(0.4 * c.BLOCKS_PER_SM * (shape.a.bytes * min(c.STAGES, 2) / 2 + shape.b.bytes))


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does: lanes past the last row or column compute, too."""
    shape = _shape(problem, c)
    each = (8 if problem.is_complex else 2) * problem.BATCH * shape.rows * shape.columns
    each *= 256 if c.VARIANT == "tensor" else 32
    return int(each * _steps_of_warps(problem, c))


remarks = partial(costs.memory_bound, work)
