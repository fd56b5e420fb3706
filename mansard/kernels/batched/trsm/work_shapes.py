"""Shared memory of the GPU configurations of trsm: the numbers of the kernels, and how their operands lie there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....plan.problem import Problem
from ...common import images
from ...common.configs import up
from ...common.images import Image
from ...common.lanes import group, plain_images, stage_and_shared_bytes
from ..gemm.work_panels import Window, windows
from .systems import system


@dataclass(frozen=True)
class LanesShape:
    """What decides legality; the kernel asserts that it agrees."""

    a: Image
    b: Image
    x: Image
    group: int  # matrices per warp and turn
    rows: int  # of X per lane
    columns: int
    stage_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class BlockedShape:
    """The same for blocked configurations."""

    a: Window
    blocks: int  # along the diagonal
    tiles: int  # of columns, per matrix
    rows: int  # of X per lane
    columns: int
    stage_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class StreamShape:
    """The same for streaming ones."""

    feed: str
    read: int  # elements of a row of A that are read at once
    blocks: int  # of 32 rows
    pieces: int  # of all blocks
    stage_bytes: int
    shared_bytes: int


@lru_cache(maxsize=8192)
def lanes_shape(problem: Problem, c: Any) -> LanesShape:
    """Lanes of a team are numbered along the rows first."""
    operands = system(problem).operands
    lanes = (c.LANES_N, c.LANES_M)
    steps = {"a": ("", "run" if operands.layout_a == "col" else "line")}
    for name in "bc":
        steps[name] = ("line", "run") if getattr(operands, f"layout_{name}") == "col" else ("run", "line")
    plain = plain_images(operands, c)
    a, b, x = (images.spread(plain[name], lanes, steps[name]) for name in "abc")
    if c.OUT == "back" and plain["b"] == plain["c"]:
        x = b
    back = "b" if c.OUT == "back" else ""
    stage, shared = stage_and_shared_bytes(operands, c, {"a": a, "b": b}, x, back)
    return LanesShape(
        a, b, x, group(c), up(problem.N, c.LANES_M), up(problem.NRHS, c.LANES_N), stage, shared,
    )  # fmt: skip


@lru_cache(maxsize=8192)
def blocked_shape(problem: Problem, c: Any) -> BlockedShape:
    """Blocks of A whose reads keep apart, and all rows of some columns of X."""
    operands = system(problem).operands
    order, columns = min(c.BLK_M, problem.N), min(c.BLK_N, problem.NRHS)
    steps = ("", "run" if operands.layout_a == "col" else "line")
    lanes = (max(1, 32 // c.DIM_Y), c.DIM_Y)
    choices = windows(operands, "a", (order, order))
    a = min(choices, key=lambda one: (images.collisions(one, lanes, steps), one.pitch))
    of_lane = up(columns, c.DIM_X)
    x_bytes = up(problem.N * (of_lane * c.DIM_X | 1) * problem.itemsize, 16) * 16
    return BlockedShape(
        a, up(problem.N, order), up(problem.NRHS, columns), up(order, c.DIM_Y), of_lane, a.bytes,
        up(c.STAGES * a.bytes + x_bytes, 128) * 128,
    )  # fmt: skip


@lru_cache(maxsize=8192)
def stream_shape(problem: Problem, c: Any) -> StreamShape:
    """32 rows x BLK_K columns of A at a time, lines apart by 16 bytes more than they are long."""
    rows_first, feed = system(problem).operands.layout_a != "col", stream_feed(problem)
    vector = 1 if feed == "elements" else 16 // problem.itemsize
    lines, length = (32, c.BLK_K) if rows_first else (c.BLK_K, 32)
    stage = up(lines * (length + vector) * problem.itemsize, 16) * 16
    blocks = up(problem.N, 32)
    pieces = sum(up(min(32 * (block + 1), problem.N), c.BLK_K) for block in range(blocks))
    sums = ((blocks - 1) * 32 + 2 * (c.WARPS - 1) * 32) * problem.itemsize
    read = vector if rows_first and feed != "linear" else 1
    shared = c.PER_BLOCK * (sums + c.WARPS * c.STAGES * stage)
    return StreamShape(feed, read, blocks, pieces, stage, up(shared, 128) * 128)


def stream_feed(problem: Problem) -> str:
    """Pieces of 16 bytes whose lines begin on boundaries (`lines`) or anywhere (`linear`), or single elements."""
    operands, vector = system(problem).operands, 16 // problem.itemsize
    if operands.layout_a == "any" or (problem.is_complex and not problem.aligned):
        return "elements"
    # the blocks of an upper triangle are counted from its end
    whole = operands.pitch_a % vector == 0 and (problem.N % vector == 0 or not system(problem).upper)
    return "lines" if problem.aligned and whole else "linear"
