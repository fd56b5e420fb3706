"""Registers, threads and shared memory of the configurations of `ragged_gemm`."""

from __future__ import annotations

from typing import Any

from ...plan.problem import Problem
from ..configs import up

ITEM_BYTES, CLASSES = 40, 9  # of items.cuh
_PAD = 4  # of panels.cuh


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.WARPS * 32 if c.VARIANT == "lanes" else c.THREADS)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    if c.VARIANT == "lanes":
        width = widest(c.CLASS)
        vector = 16 // problem.itemsize
        place = up(width * (width + vector), vector) * 16
        return int(c.WARPS * 32 // (c.LANES_M * c.LANES_N) * 2 * place)
    if c.VARIANT == "tiles":
        stage = c.BLK_M * (c.BLK_K + _PAD) + c.BLK_K * (c.BLK_N + _PAD)
        return int(c.STAGES * stage * problem.itemsize)
    return 0


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    words = problem.itemsize // 4
    if c.VARIANT == "sort":
        return 40
    if c.VARIANT == "lanes":
        rows, columns = widest(c.CLASS) // c.LANES_M, widest(c.CLASS) // c.LANES_N
        return int(words * (rows * columns + rows + columns)) + 48
    sums = c.BLK_M * c.BLK_N // c.THREADS
    return int(words * sums * 1.4) + 44


def widest(index: int) -> int:
    """The most rows or columns in a class; 0 if there is no limit."""
    return (0, 128, 64, 32, 24, 16, 12, 8, 4)[index]


def workspace_bytes(batch: int, blocks: int) -> tuple[int, int, int]:
    """Of the records, the starts of the classes, and the blocks' counts."""
    return batch * ITEM_BYTES, 8 * up(CLASSES + 1, 2) * 2, 8 * up(blocks * CLASSES, 2) * 2
