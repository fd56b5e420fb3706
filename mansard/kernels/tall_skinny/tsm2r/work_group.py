"""Registers and limits of `tsm2r`'s warpgroups."""

from __future__ import annotations

from typing import Any

from ....plan.problem import Problem
from ...common.configs import up

SUSTAINED: float = 1.75  # of the rate of multiply-adds: what three TF32 products reach in warpgroups
_CLOCK = 1.75e9  # under load
# Of an instruction, which takes half a clock per column: narrow ones are not quicker. (Both halves of 16 columns of B
# in one instruction won, those of 32 lost.)
_LEAST_CLOCKS = 16
_WAIT_CLOCKS = 64  # of a warpgroup alone, from its last instruction of a step to the first of the next but one
_PIECE_SECONDS = 0.25e-6  # the barrier over a piece of B, and the tensor cores' first step behind it


def passes(c: Any, tiles_n: int) -> int:
    """Numbers of a piece of B, four rows each, that a thread fetches."""
    return up(tiles_n * 8 * (c.DEPTH // c.PARTS // 4), 128 * c.GROUPS)


def registers(c: Any, shape: Any) -> int:
    """Sums and those of a chain, what was loaded of A, halves of two steps, the next piece of B."""
    sums = c.TILES * shape.tiles_n * (6 if c.JOINED else 4)
    held = 2 * c.TILES * shape.group + 16 * c.TILES + 4 * passes(c, shape.tiles_n)
    return int(2 * sums + held + 18 + 2 * c.TILES + 2 * shape.tiles_n)


def limits(problem: Problem, c: Any, shape: Any, chunks: float) -> dict[str, float]:
    """Seconds for `chunks` chunks of one multiprocessor: its shared memory; tensor cores, or one warpgroup's steps."""
    clashes = 2 if problem.layout_a == "col" and c.TILES % 2 else 1
    plane, steps = shape.tiles_n * 256, c.DEPTH // 8
    products, columns = (2, 16 * shape.tiles_n) if c.JOINED else (3, 8 * shape.tiles_n)
    read = products * columns * 32  # bytes of B per step of a tile
    # A laid down and read, B laid down by threads and read by tensor cores for each product
    moved = shape.stage_bytes * (1 + clashes) + steps * (2 * plane + read * c.GROUPS * c.TILES)
    busy = c.TILES * products * max(_LEAST_CLOCKS, columns / 2)  # clocks of a step of one warpgroup
    clocks = steps * max(c.GROUPS * busy, (busy + _WAIT_CLOCKS) / c.BLOCKS_PER_SM)
    return {
        "shared memory": chunks * moved / 128 / _CLOCK,
        "tensor cores": chunks * (clocks / _CLOCK + c.PARTS * _PIECE_SECONDS / c.BLOCKS_PER_SM),
    }
