"""Shared memory of the GPU configurations of cholesky: the numbers of the kernels, and how operands lie there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....plan.problem import Problem
from ...common import images
from ...common.configs import up
from ...common.images import Image
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
    group: int  # matrices per warp, or two, and turn
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
    """Adjacent columns of a lane of a tile: 16 bytes' worth where the rows of a slot reach that far. Lines of odd
    length are moved one element at a time (DIRECT): there it is one where that leaves out a slot of columns, without
    which a third warp fits into a quarter of a multiprocessor."""
    widest = int(min(16 // problem.itemsize, c.LANES_M // c.LANES_N))
    rows, words, odd = up(problem.N, c.LANES_M), problem.itemsize // 4, problem.N % 2 and not spec.is_ragged(problem)
    fewer = rows * c.LANES_M - problem.N >= c.LANES_N and rows * rows * words <= _OF_A_THIRD < rows * (rows + 1) * words
    return 1 if c.DIRECT and odd and (c.LANES_N, widest) == (4, 2) and fewer else widest


_OF_A_THIRD = 128  # registers of 168 that entries of the matrix may have


def wide(problem: Problem, c: Any, name: str) -> int:
    """Elements that a lane of a tile moves at once between global memory and its registers: a run, or as much of it as
    begins where it may."""
    operand = view(problem, name)
    if operand.layout_c != "row" or not problem.aligned:
        return 1
    return math.gcd(run(problem, c), operand.pitch_c, problem.N)


def team(c: Any) -> int:
    """Lanes per matrix."""
    return int(c.LANES_M * c.LANES_N if c.VARIANT == "tile" else c.LANES)


def slab(problem: Problem, c: Any) -> int:
    """Elements of the place through which a tile's factors go to rows without gaps, some slots of rows at a time; zero
    where they go there without it: what lanes write to a row at once fills whole sectors of 32 bytes, or nearly."""
    f = view(problem, "f")
    if not (c.VARIANT == "tile" and c.DIRECT) or f.layout_c != "row" or f.pitch_c != problem.N:
        return 0
    if whole(problem, c) == 1 or (problem.N % whole(problem, c) == 0 and not spec.is_ragged(problem)):
        return 0
    vector = 16 // problem.itemsize
    return up(band(problem) * c.LANES_M * problem.N + vector, vector) * vector


def band(problem: Problem) -> int:
    """Slots of rows at a time. What that spares of a slot's begin and end pays where they are not known before."""
    return 2 if spec.is_ragged(problem) else 1


def whole(problem: Problem, c: Any) -> int:
    """Orders that are multiples of it need no such place."""
    at_once = wide(problem, c, "f")
    return at_once if c.LANES_N * at_once * problem.itemsize >= 64 else max(at_once, 32 // problem.itemsize)


def piece(problem: Problem, c: Any) -> int:
    """Elements that are moved at once between global memory and a triangle in shared memory that has no other half
    (wedge.cuh); zero where matrices lie there whole."""
    if not (c.VARIANT == "tile" and c.TRIANGLE and problem.want == "factor"):
        return 0
    a, f = (view(problem, name) for name in "af")
    dense = all(images.feed(operand, "c") == "flat" for operand in (a, f))
    if a.layout_c != f.layout_c or not dense:
        return 0
    return math.gcd(16 // problem.itemsize, problem.N, c.LANES_M) if problem.aligned else 1


def wedge_bytes(problem: Problem, c: Any) -> int:
    """Of such a triangle."""
    bands, each = up(problem.N, c.LANES_M), piece(problem, c)
    empty, falling = bands * c.LANES_M - problem.N, view(problem, "a").layout_c != "col"
    width, step = (c.LANES_M - empty, c.LANES_M) if falling else (bands * c.LANES_M, -c.LANES_M)
    pitch = width + (each if width // each % 2 == 0 else 0)
    elements = c.LANES_M * (bands * pitch + step * bands * (bands - 1) // 2) - empty * pitch
    return up(elements * problem.itemsize, 16) * 16


@lru_cache(maxsize=8192)
def images_shape(problem: Problem, c: Any) -> ImagesShape:
    """Lanes along rows, or, of a tile, along rows first; F and X are laid down where A and B were."""
    tile = c.VARIANT == "tile"
    lanes = (c.LANES_N, c.LANES_M) if tile else (1, c.LANES)
    group = max(1, 32 // team(c))
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
        place_a = group * slab(problem, c) * problem.itemsize
    elif piece(problem, c):
        place_a = group * wedge_bytes(problem, c)
    longest = up(problem.N, c.LANES_M) * c.LANES_M if tile else problem.N
    units = up(up(longest, vector) * vector + problem.NRHS, vector) | 1  # teams begin in different banks
    column = units * vector
    of_columns = 0 if team(c) == 1 else (3 if tile else 2) * group * column * problem.itemsize
    stage, groups = place_a + place_b, c.WARPS * 32 // max(32, team(c))
    return ImagesShape(a, f, b, x, group, column, stage, up(groups * (stage + of_columns), 128) * 128)


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
