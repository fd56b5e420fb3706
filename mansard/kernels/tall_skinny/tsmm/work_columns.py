"""Shared memory, registers and limits of the variant `columns`: what model and pruning use."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....plan.problem import REAL, Problem
from ...common.configs import up

PADDING = 32  # bytes between columns of a stage: four columns begin in different banks
SHARE = 0.93  # of the bandwidth, reached by copies of single entries
_FRAGMENT = 512  # bytes of C that the lanes of a warp hold for eight words of A and eight columns


def words_of(problem: Problem) -> int:
    """Real words of an entry."""
    return 2 if problem.is_complex else 1


def threads(c: Any) -> int:
    """Threads per block."""
    return int(32 * c.GROUPS * c.WARPS_N)


def columns_of_warp(problem: Problem, c: Any) -> int:
    """Columns of W that a warp computes, eight at a time."""
    return up(up(problem.N, 8), c.WARPS_N)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block: `ColumnsShape` in columns_stream.cuh, which asserts that they agree."""
    size = problem.itemsize
    head = up(c.GROUPS * 16 + c.GROUPS * c.STAGES * 8, 128) * 128
    ring = c.GROUPS * c.STAGES * c.DEPTH * (c.ROWS * size + PADDING)
    pitch = problem.N + (problem.N + 1) % 2 if c.UNIT == "fma" else problem.N
    out = c.GROUPS * up(c.OUT * pitch * size, 16) * 16
    if c.UNIT == "fma":
        small = up(problem.M * problem.N * size, 16) * 16
    else:
        small = up(problem.M * words_of(problem), 8) * columns_of_warp(problem, c) * c.WARPS_N * _FRAGMENT
    return int(up(head + ring + out + small, 128) * 128)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    words, real = words_of(problem), problem.itemsize // words_of(problem) // 4
    if c.UNIT == "fma":
        return int(words * real * (problem.N * c.ROWS // 32 + min(problem.N, 8) + c.ROWS // 32)) + 44
    tiles = c.ROWS // 16 * columns_of_warp(problem, c) * words
    if c.UNIT == "tf32x3":
        return int(4 * tiles + 14 * (c.ROWS // 16) + 4 * columns_of_warp(problem, c)) + 56
    return int(8 * tiles + 16 * (c.ROWS // 16) + 8 * words) + 56


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes that a multiprocessor has under way at once."""
    columns = min(c.DEPTH, problem.M)
    return int(c.BLOCKS_PER_SM * c.GROUPS * (c.STAGES - 1) * columns * c.ROWS * problem.itemsize)


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least: the units that multiply, and shared memory."""
    words, steps = words_of(problem), problem.K / c.ROWS
    real = problem.itemsize // words
    if c.UNIT == "fma":
        flops = words * words * 2 * problem.M * problem.N * problem.K
        seconds = {"arithmetic": flops / float(machine.fma[REAL[problem.dtype]])}
        reads = steps * (c.ROWS // 32) * problem.M * (problem.itemsize / 4 + problem.N * problem.itemsize / 16)
    else:
        blocks, columns = up(problem.M * words, 8), columns_of_warp(problem, c) * c.WARPS_N
        flops = 2 * problem.K * blocks * 8 * columns * 8 * words
        if c.UNIT == "tf32x3":
            rate = _HALVES * float(machine.fma["float32"])
        else:
            rate = _BUSY * float(machine.tensor.get("float64", machine.fma["float64"]))
        seconds = {"arithmetic": flops / rate}
        reads = steps * blocks * (c.WARPS_N * c.ROWS // 8 * (real // 2) + 4 * columns)
    moved = problem.K * problem.itemsize * (problem.M + 3 * problem.N) / 128  # to stages; results in and out
    seconds["shared memory"] = (reads + moved) / device.multiprocessors / _CLOCK
    return seconds


# Three TF32 products beside the rate of multiply-adds, and the share of the FP64 tensor cores' rate that warps reach
# between loads: as the variant `ring` was fitted. The clock is that under load.
_HALVES, _BUSY, _CLOCK = 1.1, 0.85, 1.75e9
