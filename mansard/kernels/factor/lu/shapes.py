"""Shared memory of the GPU configurations of lu: the numbers of the kernels, and how their operands lie there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ....plan.problem import Problem
from ...common import images, operands
from ...common.configs import up
from ...common.images import Image
from . import spec


@dataclass(frozen=True)
class LanesShape:
    """What decides legality; the kernel asserts that it agrees."""

    a: Image
    f: Image
    b: Image
    x: Image
    group: int  # matrices per warp
    slots: int  # rows of a lane
    warp_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class BlockShape:
    """The same for a block per matrix."""

    a: Image
    f: Image
    b: Image
    x: Image
    slots: int  # rows of a panel per lane
    shared_bytes: int


@lru_cache(maxsize=8192)
def view(problem: Problem, name: str) -> Problem:
    """The operand by itself, as the C of a problem; one that is absent lies in rows without gaps."""
    rows, columns = (max(1, size) for size in spec.shape(problem, name))
    one = operands.of(problem, name)
    if not spec.present(problem, name) or (rows, columns) == (1, 1):
        one = replace(one, layout="row", pitch=columns)
    return operands.alone(problem, operands.as_column(one, (rows, columns)), (rows, columns))


def layout(problem: Problem, operand: str) -> str:
    """Which way lines run."""
    return str(view(problem, operand).layout_c)


def dealt(c: Any) -> bool:
    """Whether lanes share the rows of a matrix: one has them all, as have two, who do the same."""
    return int(c.LANES) > 2


def slots(problem: Problem, c: Any) -> int:
    """Rows of a lane."""
    return up(problem.M, c.LANES) if dealt(c) else int(problem.M)


def _apart(size: int) -> int:
    """Bytes from team to team, of which so many are used, that begin in different banks."""
    return (up(size, 16) | 1) * 16


def _looked_up(problem: Problem, c: Any, factors: Image) -> bool:
    """Whether rows of factors are looked up on their way out: of orders that are powers of two."""
    square = problem.M == problem.N and problem.N & (problem.N - 1) == 0
    plain = layout(problem, "f") == "row" and factors.feed != "elements" and not factors.shifted
    large = problem.itemsize > 4 and (problem.M > c.LANES or problem.M > 16)  # others are faster without (H200)
    return problem.want == "factor" and bool(problem.pivot) and dealt(c) and square and plain and large


def _places(problem: Problem, group: int, lanes: int) -> dict[str, Image]:
    """How operands lie, rows apart by what keeps so many lanes from colliding."""
    place: dict[str, Image] = {}
    for name in spec.SHAPES:
        alike = view(problem, name)
        step = "run" if alike.layout_c == "col" else "line"
        place[name] = images.spread(images.of_operand(alike, "c", group), (1, lanes), ("", step))
    return place


@lru_cache(maxsize=8192)
def lanes_shape(problem: Problem, c: Any) -> LanesShape:
    """Lanes of a team stand at the rows of its matrix."""
    group = 32 // c.LANES
    place = _places(problem, group, c.LANES)
    of_f = place["f"].bytes if problem.want in ("factor", "inverse") else 0
    of_b = max(place["b"].bytes, place["x"].bytes) if problem.want == "solve" else 0
    steps = spec.steps(problem)
    inverted = _apart(steps * problem.itemsize) if dealt(c) and problem.want == "inverse" else 0
    line = up((problem.N + (problem.NRHS if problem.want == "solve" else 0)) * problem.itemsize, 128) * 128 + 16
    carried = 2 * group * line if c.VIA == "shared" else 0
    order = 4 * problem.M if _looked_up(problem, c, place["f"]) else 0
    of_steps = up(group * steps * 4, 16) * 16 + group * (inverted + order)
    if problem.want == "solve" and dealt(c):  # where A was
        carried, of_steps = carried + group * _apart(steps * 2 * problem.itemsize), 0
    warp = max(place["a"].bytes, of_f, carried) + of_b + of_steps
    return LanesShape(**place, group=group, slots=slots(problem, c), warp_bytes=warp,
                      shared_bytes=up(c.WARPS * up(warp, 16) * 16, 128) * 128)  # fmt: skip


@lru_cache(maxsize=8192)
def block_shape(problem: Problem, c: Any) -> BlockShape:
    """One matrix, whose rows are apart by what keeps the lanes of a panel from colliding."""
    place = _places(problem, 1, 32)
    right = problem.NRHS if problem.want == "solve" else 0
    of_b = up(right * problem.N * problem.itemsize, 16) * 16
    real = problem.itemsize // 2 if problem.is_complex else problem.itemsize
    offered = up(c.WARPS * (c.BLK * problem.itemsize + real + 4), real) * real
    offers = up(2 * offered, 16) * 16 if c.TEAM == "block" else 0
    order = 2 * problem.N if problem.want == "inverse" else 0
    numbers = (up(spec.steps(problem), c.BLK) * c.BLK + 2 * c.BLK + order + 4) * 4
    shared = up(place["a"].bytes + of_b + offers + numbers, 128) * 128
    return BlockShape(**place, slots=up(problem.M, 32), shared_bytes=shared)


@lru_cache(maxsize=8192)
def tile_shape(problem: Problem, c: Any) -> BlockShape:
    """One matrix, in whose place warps offer rows; then what steps leave."""
    place = _places(problem, 1, 32)
    offer = up(problem.itemsize + 12, 16) * 16 + c.LANES_N * _apart(up(problem.N, c.LANES_N) * problem.itemsize)
    image = max(place["a"].bytes, place["f"].bytes, 2 * c.WARPS * offer)
    shared = up(image + up(problem.N * problem.itemsize, 16) * 16 + 2 * problem.N * 4, 128) * 128
    return BlockShape(**place, slots=up(problem.N, c.WARPS * 32 // c.LANES_N), shared_bytes=shared)


def shape(problem: Problem, c: Any) -> LanesShape | BlockShape:
    """That of the configuration's variant."""
    if c.VARIANT == "lanes":
        return lanes_shape(problem, c)
    return tile_shape(problem, c) if c.VARIANT == "tile" else block_shape(problem, c)
