"""Bytes, flops, registers and shared memory of Cholesky problems and configurations: what model and pruning use."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import REAL, Problem
from ...common import costs
from ...common.configs import up
from . import spec
from .shapes import NB, images_shape, piece, run, shape, team


def work(problem: Problem) -> Work:
    """The least a batch must move and compute: A once, though half of it would do, and what is asked for once."""
    N, NRHS, batch = problem.N, problem.NRHS, problem.BATCH
    solve = problem.want == "solve"
    addresses = 8 * batch * sum(getattr(problem, f"stack_{name}") == "pointers" for name in spec.operands(problem))
    addresses += 32 * batch * spec.is_ragged(problem)
    flops = N * (N + 1) * (2 * N + 1) // 6 + (2 * N * N * NRHS if solve else 0)
    return Work(
        read=problem.itemsize * batch * (N * N + (N * NRHS if solve else 0)) + addresses,
        written=batch * (problem.itemsize * N * (NRHS if solve else N) + 4),
        flops=(4 if problem.is_complex else 1) * flops * batch,
        dtype=problem.dtype,
        spared=problem.itemsize * batch * (N * (N - 1) // 2),
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.WARPS * 32)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    return int(shape(problem, c).shared_bytes)


def entries(problem: Problem, c: Any) -> int:
    """Of the matrix, per lane: rows as far as their slot reaches."""
    N = problem.N
    if c.VARIANT == "lanes":
        return sum(min(N, (slot + 1) * c.LANES) for slot in range(up(N, c.LANES)))
    if c.VARIANT == "tile":
        span, down = c.LANES_N * run(problem, c), up(N, c.LANES_M)
        begin = (down * c.LANES_M - N) // span
        return int(run(problem, c) * sum((r + 1) * c.LANES_M // span - begin for r in range(down)))
    return NB * _slots(problem, c)


def _slots(problem: Problem, c: Any) -> int:
    """Rows of a panel per lane of a block."""
    return 1 + up(max(0, problem.N + problem.NRHS - NB * (1 + c.WARPS)), 32 * c.WARPS)


def rows(problem: Problem, c: Any) -> int:
    """Per lane."""
    if c.VARIANT == "block":
        return _slots(problem, c)
    return up(problem.N, c.LANES if c.VARIANT == "lanes" else c.LANES_M)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    words, held = int(problem.itemsize // 4), entries(problem, c)
    if c.VARIANT == "block":
        if problem.dtype == "float64" and problem.want == "factor" and held in _TOLD and not spec.is_ragged(problem):
            return _TOLD[held]
        return words * (held + 8) + (56 if held > NB else 48)
    if c.VARIANT == "tile" and (c.DIRECT or piece(problem, c)):
        others = (56 if c.LANES_N == 2 else 24) if c.DIRECT else {2: 46, 8: 20}.get(c.LANES_N, 38)
        return words * (held + rows(problem, c)) + others + 4 * (words - 2) * (words > 2)
    elements = int(sum(getattr(images_shape(problem, c), name).feed == "elements" for name in spec.operands(problem)))
    if c.VARIANT == "lanes" and c.LANES == 1:
        held = int(problem.N * (problem.N + 1) // 2 + problem.N * problem.NRHS)
        return words * (held + 4) + 30 + 4 * elements
    sums = int(held + rows(problem, c) * (2 + problem.NRHS) + problem.NRHS + 4)
    # columns wait until they are multiplied, the more so where steps are unrolled
    waiting = int(problem.N) + 4 * (words == 1) if c.VARIANT == "lanes" else 12 if c.LANES_N == 2 else 0
    return words * sums + 38 + waiting + 4 * elements + min(held // 2, 16)


def unfitted_registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread on GPUs to which `registers` was not fitted: unrolled steps of a factorization by
    `lanes` have as many products of columns under way as a lane holds entries."""
    found = registers(problem, c)
    if c.VARIANT != "lanes" or c.LANES == 1 or problem.want != "factor":
        return found
    return found + int(problem.itemsize // 4 * entries(problem, c))


# by what a lane holds: told so, the compiler spills up to 88 bytes of 86 and of 132, and another block fits (H200)
_TOLD = {NB: 80, 2 * NB: 128}


def matrices(c: Any) -> int:
    """Per block of `lanes` and `tile`."""
    return int(c.WARPS * 32 // team(c))


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Blocks per launch: they come and go."""
    each = 1 if c.VARIANT == "block" else matrices(c)
    return int(max(1, min(up(problem.BATCH, each), _MOST_BLOCKS)))


_MOST_BLOCKS = 1 << 30


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    clocks = device.multiprocessors * _CLOCK / max(1, problem.BATCH)  # per matrix
    turns = c.BLOCKS_PER_SM * (1 if c.VARIANT == "block" else matrices(c))  # under way
    return {
        "arithmetic": executed_flops(problem, c) / unit_rate(problem, c, machine),
        "instructions": issued(problem, c) / 4 / clocks,
        "pivots": (_LATENCY + problem.N * _STEP_CLOCKS * (2 if problem.want == "solve" else 1)) / turns / clocks,
    }


def issued(problem: Problem, c: Any) -> float:
    """Instructions of all warps per matrix."""
    words = 2 if problem.is_complex else 1
    products = executed_flops(problem, c) / max(1, problem.BATCH) / 2 / 32
    vector = 16 // problem.itemsize
    moved = 2 * problem.N**2 * problem.itemsize / 512 * _COPY_INSTRUCTIONS
    if c.VARIANT == "block":
        panels = up(problem.N, NB) * c.WARPS * (NB * (16 + NB * words) + 60)
        return float(products * (0.3 if REAL[problem.dtype] == "float64" else 1.6) + panels + moved * vector)
    of_step = 16 + rows(problem, c) * (3 * words + 1) + problem.N / 2 / vector * (1 if c.VARIANT == "lanes" else 0.4)
    kept = 4 * entries(problem, c)
    return float(products + (problem.N * of_step + kept) * team(c) / 32 + moved)


# Instructions per 16-byte copy of a warp; clocks from pivot to pivot, and until memory answers; the clock under load.
_COPY_INSTRUCTIONS, _STEP_CLOCKS, _LATENCY, _CLOCK = 5, 190, 1500, 1.75e9


reduction_seconds = costs.no_reduction


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a configuration's way of loading and storing reaches: less of single elements,
    more where it leaves out the other triangle."""
    if c.VARIANT == "block":
        return 1.0
    slow = any(getattr(images_shape(problem, c), name).feed == "elements" for name in spec.operands(problem))
    line = problem.N * problem.itemsize
    half = c.TRIANGLE or (c.VARIANT == "tile" and c.DIRECT)
    rest = max(0, line - 64) / 4 / line if half else 0  # memory moves 64 bytes at a time
    return float((0.85 if slow else 1.0) / (1 - rest))


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    if c.VARIANT == "block":
        return int(c.BLOCKS_PER_SM * shape(problem, c).shared_bytes * 0.4)
    if c.VARIANT == "tile" and c.DIRECT:  # whole triangles, in registers
        return int(c.BLOCKS_PER_SM * c.WARPS * 32 * entries(problem, c) * problem.itemsize * 0.6)
    shape_of = images_shape(problem, c)
    return int(c.BLOCKS_PER_SM * matrices(c) / shape_of.group * shape_of.stage_bytes * 0.6)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does: rows beyond the diagonal, and past the last one, compute, too."""
    each = (8 if problem.is_complex else 2) * problem.BATCH
    if c.VARIANT == "block":
        across, down = shape(problem, c).across, shape(problem, c).down
        products = sum((down - p) * (across - p) / 2 + down - p for p in range(across))
        return int(each * products * NB**3)
    lanes = c.LANES if c.VARIANT == "lanes" else c.LANES_M * c.LANES_N
    half = problem.N * (entries(problem, c) + 2 * rows(problem, c) * problem.NRHS)
    return int(each * half * lanes * (0.7 if lanes > 1 else 0.35))


def unit_rate(problem: Problem, c: Any, machine: Machine) -> float:
    """Flops per second of the unit the variant computes with."""
    return 0.7 * float(machine.fma[REAL[problem.dtype]])


remarks = partial(costs.memory_bound, work)
