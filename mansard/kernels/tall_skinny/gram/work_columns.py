"""Shared memory, registers and traffic of the variant `columns`: what model and pruning use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....plan.problem import Problem
from ...common.configs import up

LINE = 128  # bytes after which the banks repeat


@dataclass(frozen=True)
class ColumnsShape:
    """The numbers of `ColumnsRing` in kernel_columns.cuh that decide legality; the kernel asserts that they agree."""

    threads: int
    lines: int  # of 128 bytes of a column, per warp and chunk
    units: int  # of 16 bytes that a lane reads at once
    height: int  # rows of a unit
    slots_m: int  # per warp, of eight real columns each
    slots_n: int
    shared_bytes: int
    stage_bytes: int
    tiles: int  # products of 16 x 8 that a warp forms in a step
    once: bool  # a warp's slots of A are those of B too


def is_column_major(problem: Problem) -> bool:
    """Whether the columns of both operands are contiguous; a packed single one is called a row-major matrix."""
    sides = ((problem.layout_a, problem.M, problem.pitch_a), (problem.layout_b, problem.N, problem.pitch_b))
    return all(layout == "col" or (layout == "row" and width == pitch == 1) for layout, width, pitch in sides)


def steps(problem: Problem) -> tuple[int, int]:
    """Bytes from one column of A to the next, and of B; 0 where there is no next."""
    a, b = problem.M > 1 and problem.pitch_a, problem.N > 1 and problem.pitch_b
    return int(a) * problem.itemsize, int(b) * problem.itemsize


def skews(problem: Problem) -> tuple[bool, bool]:
    """Whether the columns of A, and of B, begin at different places of a line."""
    a, b = steps(problem)
    return a % LINE != 0, b % LINE != 0


def octets(problem: Problem, c: Any) -> tuple[int, int]:
    """Groups of eight columns of A and of B that a warp reads."""
    if c.TRIANGLE:
        words = 2 if problem.is_complex else 1
        both = up(up(problem.M, 8) * words, 2) * 2 // words
        return both, both
    return up(up(c.FOLD * problem.M, 8), c.WARPS_M), up(up(c.FOLD * problem.N, 8), c.WARPS_N)


@lru_cache(maxsize=4096)
def columns_shape(problem: Problem, c: Any) -> ColumnsShape:
    words, column = 2 if problem.is_complex else 1, c.ROWS * problem.itemsize
    threads = (c.WARPS_M * c.WARPS_N * c.WARPS_K * c.GROUPS + (c.FEED == "producer")) * 32
    skewed = skews(problem) if c.VARIANT == "columns" else (False, False)
    stage = sum(
        width * (column + LINE) if skew else width * column + LINE
        for width, skew in zip((problem.M,) if problem.same else (problem.M, problem.N), skewed, strict=False)
    )
    slots_m, slots_n = (words * each for each in octets(problem, c))
    block_m, block_n = slots_m * 8, slots_n * 8
    if not c.TRIANGLE:
        block_m, block_n = block_m * c.WARPS_M, block_n * c.WARPS_N
    barriers = up(2 * c.GROUPS * c.STAGES * 8, 128) * 128
    tile = block_m * (block_n + 1) * 8  # the teams' sums meet in as many tiles as the ring's memory holds
    shared = up(max(barriers + c.GROUPS * c.STAGES * stage, tile, threads * 8 * words), 128) * 128
    height, lines = 16 // problem.itemsize, column // LINE // c.FOLD // c.WARPS_K
    units = max(2 if c.SPREAD == "rotate" else 1, up(c.KSTEP // 4, height))
    whole = problem.same and c.WARPS_M == c.WARPS_N == 1 and not c.TRIANGLE
    tiles = _tiles(c, slots_m, slots_n, whole and c.FOLD == 1)
    return ColumnsShape(threads, lines, units, height, slots_m, slots_n, shared, stage, tiles, whole or c.TRIANGLE)


def _tiles(c: Any, slots_m: int, slots_n: int, half: bool) -> int:
    """As `Turn` and `Tiling` in slots.cuh count them."""
    if c.TRIANGLE:
        pairs = slots_m // 2
        turns = pairs // c.WARPS_M
        opposite = 0 if pairs % 2 else turns if turns % 2 else turns // 2
        return int(2 * (turns * ((pairs + 1) // 2) + opposite))
    if half:
        return int(sum(slots_n - 2 * i for i in range(slots_m // 2)) + slots_m % 2)
    return int(slots_m // 2 * slots_n + slots_m % 2 * up(slots_n, 2))


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated: sums, what is read at once, addresses."""
    shape = columns_shape(problem, c)
    per_word = problem.itemsize // (2 if problem.is_complex else 1) // 4
    slots = shape.slots_m + (0 if shape.once else shape.slots_n)
    read = slots * shape.units * shape.height * per_word
    other = 32 if c.VARIANT == "columns" else 56  # `entries` has addresses of copies
    if c.UNIT == "tf32x3":  # sums, those of a chain, and both halves of the operands
        return int(8 * shape.tiles + read + 4 * slots) + other
    widened = slots * c.KSTEP // 2 if per_word == 1 else 0
    return int(8 * shape.tiles + read + widened) + other


def traffic(problem: Problem, c: Any) -> tuple[int, float, float, float, int]:
    """Per warp and step of four rows: slots, instructions that read them, passes of 128 bytes, selects; and the copies
    of a chunk."""
    shape = columns_shape(problem, c)
    real = problem.itemsize // (2 if problem.is_complex else 1)
    slots = shape.slots_m + (0 if shape.once else shape.slots_n)
    passes = slots * real / 4 * (1 if c.SPREAD == "rotate" else 2)
    selects = slots * real / 4 if c.SPREAD == "rotate" else 0.0
    return slots, slots * real / 16, passes, selects, problem.M + (0 if problem.same else problem.N)


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that is left with copies of this length; a guess."""
    column = c.ROWS * problem.itemsize
    return float(column / (column + 16))


def busiest_seconds(problem: Problem, c: Any, device: Device, machine: Machine) -> float:
    """What the multiprocessor with the most chunks takes to read them: with few rows they do not come out even."""
    most = up(up(problem.K, c.ROWS), device.multiprocessors)
    return float(most * columns_shape(problem, c).stage_bytes * device.multiprocessors / machine.read_bandwidth)
