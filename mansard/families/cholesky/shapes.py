"""Shared memory of the GPU configurations of cholesky: the numbers of the kernels, and how operands lie there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...plan.problem import Problem
from ..configs import up
from ..gemm import images
from ..gemm.images import Image
from . import spec
from .views import view

NB = 16  # order of the blocks of kernel_block.cuh


@dataclass(frozen=True)
class ImagesShape:
    """Of `lanes` and `tile`: what decides legality; the kernels assert that it agrees."""

    a: Image
    f: Image
    b: Image
    x: Image
    group: int  # matrices per warp and turn
    column: int  # elements between the places for columns on their way
    stage_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class BlockShape:
    """Of `block`."""

    vector_a: int  # elements of a line that are moved at once
    vector_f: int
    words: bool  # elements begin where asynchronous copies may
    across: int  # blocks
    down: int
    shared_bytes: int


def run(problem: Problem, c: Any) -> int:
    """Adjacent columns of a lane of a tile: 16 bytes' worth where the rows of a slot reach that far."""
    return int(min(16 // problem.itemsize, c.LANES_M // c.LANES_N))


def wide(problem: Problem, c: Any, name: str) -> int:
    """Elements that a lane of a tile moves at once between global memory and its registers: a run, or as much of it as
    begins where it may."""
    operand = view(problem, name)
    if operand.layout_c != "row" or not problem.aligned:
        return 1
    return math.gcd(run(problem, c), operand.pitch_c, problem.N)


@lru_cache(maxsize=8192)
def images_shape(problem: Problem, c: Any) -> ImagesShape:
    """Lanes along rows, or, of a tile, along rows first; F and X are laid down where A and B were."""
    tile = c.VARIANT == "tile"
    lanes = (c.LANES_N, c.LANES_M) if tile else (1, c.LANES)
    team = lanes[0] * lanes[1]
    group = 32 // team
    found = {}
    for name in spec.SHAPES:
        operand = view(problem, name)
        plain = images.of_operand(operand, "c", group)
        columns = operand.layout_c == "col"
        steps = ("line" if columns else "run", "run" if columns else "line")
        found[name] = images.spread(plain, lanes, steps if tile else ("", steps[1]))
    a, f, b, x = found.values()
    solve, vector = problem.want == "solve", 16 // problem.itemsize
    place_a, place_b = (a.bytes, max(b.bytes, x.bytes)) if solve else (max(a.bytes, f.bytes), 0)
    if tile and c.DIRECT:
        place_a = 0
    longest = up(problem.N, c.LANES_M) * c.LANES_M if tile else problem.N
    units = up(up(longest, vector) * vector + problem.NRHS, vector) | 1  # teams begin in different banks
    column = units * vector
    of_columns = 0 if team == 1 else 2 * group * column * problem.itemsize
    stage = place_a + place_b
    return ImagesShape(a, f, b, x, group, column, stage, up(c.WARPS * (stage + of_columns), 128) * 128)


@lru_cache(maxsize=8192)
def block_shape(problem: Problem, c: Any) -> BlockShape:
    """Blocks of the lower triangle; right-hand sides are rows below it."""
    vector = {}
    for name in "af":
        operand = view(problem, name)
        lengths = (operand.pitch_c, problem.N)  # so lines, matrices and their ends lie on 16-byte boundaries
        whole = all(length * problem.itemsize % 16 == 0 for length in lengths)
        vector[name] = 16 // problem.itemsize if whole and operand.layout_c != "any" and problem.aligned else 1
        if spec.is_ragged(problem):
            vector[name] = 1
    if view(problem, "a").layout_c == "col":  # blocks are laid down in rows
        vector["a"] = 1
    across, down = up(problem.N, NB), up(problem.N + problem.NRHS, NB)
    count = across * (across + 1) // 2 + (down - across) * across
    elements = count * NB * NB + 2 * NB * c.WARPS  # and columns on their way
    words = problem.aligned or problem.dtype != "complex128"
    return BlockShape(vector["a"], vector["f"], words, across, down, up(elements * problem.itemsize, 128) * 128)


def shape(problem: Problem, c: Any) -> Any:
    """Of any configuration."""
    return block_shape(problem, c) if c.VARIANT == "block" else images_shape(problem, c)
