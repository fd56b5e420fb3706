"""The numbers of gemv's GPU kernels: what decides legality and costs; the kernels assert that they agree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any

from ....plan.problem import Problem
from ...common import images
from ...common import lanes as lanes_of
from ...common.configs import up
from ...common.images import Image
from .spec import canonical


@dataclass(frozen=True)
class LanesShape:
    """Of kernel_lanes.cuh."""

    a: Image
    x: Image
    y: Image
    group: int  # matrices per warp and turn
    tile: int  # runs of rows that a lane has at once
    tiles: int
    steps: int  # runs of columns per lane
    stage_bytes: int
    shared_bytes: int
    wavefronts: float  # accesses to shared memory for a group's A and x, between the copies in and out


@lru_cache(maxsize=8192)
def lanes_shape(problem: Problem, c: Any) -> LanesShape:
    problem = canonical(problem)
    group, alone = lanes_of.group(c), lanes_of.are_shared(problem)
    rows_first = problem.layout_a != "col"
    # lanes that are neighbours read runs of one line
    lanes = (c.LANES_M, c.LANES_N) if rows_first else (c.LANES_N, c.LANES_M)
    a = images.spread(images.of_operand(problem, "a", 1 if alone["a"] else group), lanes, ("line", "run"))
    x, y = vector(problem, "b", 1 if alone["b"] else group), vector(problem, "c", group)
    vm, vk = (1, a.read) if rows_first else (a.read, 1)
    of_lane, most = up(problem.M // vm, c.LANES_M), 32 // (vm * problem.itemsize // 4)
    tiles = up(of_lane, most)
    steps, tile = up(problem.K // vk, c.LANES_N), up(of_lane, tiles)
    stage, shared = lanes_of.stage_and_shared_bytes(problem, c, {"a": a, "b": x}, y)
    reads = tile * a.read * images.accesses(a, lanes, ("line", "run")) + vk * problem.itemsize / 8
    return LanesShape(
        a, x, y, group, tile, tiles, steps, stage, shared, c.PER_TEAM * tiles * steps * reads,
    )  # fmt: skip


def vector(problem: Problem, side: str, group: int) -> Image:
    """x or y of a canonical problem: one line per matrix."""
    length = problem.K if side == "b" else problem.M
    plain = Image(1, length, group, images.feed(problem, side), bool(problem.aligned), problem.itemsize, length, length)
    return next(images.padded(plain))


@dataclass(frozen=True)
class StreamShape:
    """Of kernel_stream.cuh."""

    vector: int  # adjacent elements per load
    rows: int  # of A, in runs
    columns: int
    sums: int  # per lane
    parts: int  # of a matrix, one team each
    steps: int
    threads: int
    shared_bytes: int
    busy: float  # the share of the lanes' loads that is there


@lru_cache(maxsize=8192)
def stream_shape(problem: Problem, c: Any) -> StreamShape:
    problem = canonical(problem)
    rows_first, vector = problem.layout_a != "col", adjacent(problem)
    rows, columns = (problem.M, problem.K // vector) if rows_first else (problem.M // vector, problem.K)
    of_team, across = c.WARPS_M * c.LANES_M * c.TILE_M, c.WARPS_N * c.LANES_N
    parts, steps = up(rows, of_team), up(up(columns, across), c.UNROLL)
    sums = c.TILE_M * (1 if rows_first else vector)
    partial = c.WARPS_N * of_team * (1 if rows_first else vector) * problem.itemsize if c.WARPS_N > 1 else 0
    threads = 32 * c.WARPS_M * c.WARPS_N * c.PER_BLOCK
    busy = rows * columns / (parts * of_team * steps * c.UNROLL * across)
    return StreamShape(vector, rows, columns, sums, parts, steps, threads, up(partial, 128) * 128, busy)


def adjacent(problem: Problem) -> int:
    """Elements of a line of A that one load takes, wherever a run of them begins."""
    problem, widest = canonical(problem), 16 // problem.itemsize
    if problem.layout_a == "any" or not problem.aligned:
        return 1
    length = problem.K if problem.layout_a == "row" else problem.M
    # strided stacks and addresses are aligned themselves; packed ones follow each other without a gap
    return gcd(length, int(problem.pitch_a), widest)
