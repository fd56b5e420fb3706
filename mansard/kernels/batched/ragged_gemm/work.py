"""Bytes, flops, registers, threads and shared memory of `ragged_gemm` and its configurations."""

from __future__ import annotations

from typing import Any

from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import costs
from ...common.configs import up

ITEM_BYTES, CLASSES = 40, 15  # of items.cuh
_OVERHANG = 16  # of kernel_whole.cuh


def work(problem: Problem) -> Work:
    """The least that is known before sizes are: nine tables, and one entry of each matrix."""
    entries = (3 if problem.accumulate else 2) * problem.itemsize
    return Work(
        read=problem.BATCH * (_TABLES * 8 + entries),
        written=problem.BATCH * problem.itemsize,
        flops=problem.BATCH * (8 if problem.is_complex else 2),
        dtype=problem.dtype,
    )


_TABLES = 9  # rows, columns and offsets (int64) of A, B and C


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    if c.VARIANT == "whole":
        return int(c.WARPS_M * c.WARPS_N * c.PER_BLOCK * 32)
    return int(c.WARPS * 32 if c.VARIANT in ("lanes", "vectors", "stream") else c.THREADS)


def teams(c: Any) -> int:
    """Of a block: products at a time."""
    if c.VARIANT == "whole":
        return int(c.PER_BLOCK)
    return int(c.WARPS * 32 // (c.LANES if c.VARIANT == "vectors" else c.LANES_M * c.LANES_N))


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    if c.VARIANT == "lanes":
        return int(teams(c) * c.STAGES * 2 * place_bytes(problem, c.CLASS))
    if c.VARIANT == "whole":
        return int(c.ROOM * 1024)
    if c.VARIANT == "tiles":
        stage = c.BLK_M * (c.BLK_K + 4) + c.BLK_K * (c.BLK_N + pad(problem))
        return int(c.STAGES * stage * problem.itemsize)
    if c.VARIANT == "vectors":
        vector, width = 16 // problem.itemsize, widest(c.CLASS)
        pieces = sum(up(elements + vector - 1, vector) for elements in (width * width, width))
        return int(teams(c) * 2 * pieces * 16)
    return 0


def pad(problem: Problem) -> int:
    """Elements between lines that tensor cores read (panels.cuh, kernel_whole.cuh)."""
    return 2 if problem.itemsize == 16 else 4


def place_bytes(problem: Problem, index: int, pad: int = 0) -> int:
    """What a matrix of a class may take in shared memory (laid.cuh)."""
    width, vector = widest(index), 16 // problem.itemsize
    padded = 0 if width < 8 else width // 8 * 8 + (pad or vector)
    return up(width * max(width, padded) + vector - 1, vector) * 16


def whole_bytes(problem: Problem, index: int) -> int:
    """Shared memory for the largest product of a class, by itself."""
    return 2 * place_bytes(problem, index, pad(problem)) + _OVERHANG * problem.itemsize + 16


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    words = problem.itemsize // 4
    if c.VARIANT == "sort":
        return 40
    if c.VARIANT == "lanes":
        rows, columns = widest(c.CLASS) // c.LANES_M, widest(c.CLASS) // c.LANES_N
        return int(words * (rows * columns + rows + columns)) + (56 if problem.is_complex else 48)
    if c.VARIANT == "whole":
        tiles = up(up(widest(c.CLASS), 16), c.WARPS_M), up(up(widest(c.CLASS), 16), c.WARPS_N)
        return int(tiles[0] * tiles[1] * 8 * words + sum(tiles) * (12 if words == 2 else 16)) + 52
    if c.VARIANT == "vectors":
        return int(words * (widest(c.CLASS) // c.LANES * 5 + 4)) + 56
    if c.VARIANT == "stream":
        return int(words * (c.ROWS * c.UNROLL + c.UNROLL + c.ROWS)) + 60
    sums = c.BLK_M * c.BLK_N // c.THREADS
    if c.UNIT == "tensor":
        return int(words * sums * 1.4) + 76
    return int(words * sums + 64 * c.BLK_M // c.THREADS) + 44  # and 16 bytes of every row of A


def widest(index: int) -> int:
    """The most rows or columns in a class; 0 if there is no limit."""
    return (0, 128, 64, 32, 24, 16, 12, 8, 4, 0, 256, 32, 16, 8, 0)[index]


def workspace_bytes(batch: int, blocks: int) -> tuple[int, int, int]:
    """Of the records, the starts of the classes, and the blocks' counts."""
    return batch * ITEM_BYTES, 8 * up(CLASSES + 1, 2) * 2, 8 * up(blocks * CLASSES, 2) * 2


limits = costs.no_limits  # of these kernels the model knows nothing more


reduction_seconds = costs.no_reduction


bandwidth_share = costs.full_bandwidth


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes in flight per multiprocessor: shared memory of the resident blocks, at least 16 bytes per thread."""
    return int(c.BLOCKS_PER_SM * max(shared_bytes(problem, c), 16 * threads(problem, c)))


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes, as far as the problem states them."""
    return work(problem).flops
