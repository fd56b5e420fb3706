"""Registers and limits of `tsm2r`'s warpgroups."""

from __future__ import annotations

from typing import Any

from ...plan.problem import Problem
from ..configs import up

SUSTAINED: float = 1.75  # of the rate of multiply-adds: what three TF32 products reach in warpgroups
_CLOCK = 1.75e9  # under load
_STEP_CLOCKS = 160  # from one step of eight columns to the next, however little there is to multiply
_PIECE_SECONDS = 0.25e-6  # the barrier over a piece of B, and the tensor cores' first step behind it


def passes(c: Any, tiles_n: int) -> int:
    """Numbers of a piece of B, four rows each, that a thread fetches."""
    return up(tiles_n * 8 * (c.DEPTH // c.PARTS // 4), 128 * c.GROUPS)


def registers(c: Any, shape: Any) -> int:
    """Sums and those of a chain, what was loaded of A, halves of two steps, the next piece of B."""
    sums = c.TILES * shape.tiles_n * 4
    held = 2 * c.TILES * shape.group + 16 * c.TILES + 4 * passes(c, shape.tiles_n)
    return int(2 * sums + held + 18 + 2 * c.TILES + 2 * shape.tiles_n)


def limits(problem: Problem, c: Any, shape: Any, chunks: float) -> dict[str, float]:
    """Seconds for `chunks` chunks of one multiprocessor: its shared memory, and the steps of its warpgroups."""
    clashes = 2 if problem.layout_a == "col" and c.TILES % 2 else 1
    plane = shape.tiles_n * 256
    # A laid down and read, B laid down by threads and read by tensor cores for each of three products
    moved = shape.stage_bytes * (1 + clashes) + c.DEPTH // 8 * plane * (2 + 3 * c.GROUPS * c.TILES)
    steps = c.DEPTH // 8 * c.TILES * _STEP_CLOCKS / _CLOCK + c.PARTS * _PIECE_SECONDS
    return {"shared memory": chunks * moved / 128 / _CLOCK, "warpgroups": chunks * steps / c.BLOCKS_PER_SM}
