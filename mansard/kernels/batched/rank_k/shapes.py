"""How the operands of `rank_k` lie in shared memory, and what a block of a `tiles` configuration takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd
from typing import Any

from ....plan.problem import Problem
from ...common import images, operands
from ...common.configs import up
from ...common.images import Image
from ..gemm.work_panels import Window, windows
from ..gemm.work_stream import clash as stream_clash
from . import spec


@dataclass(frozen=True)
class TilesShape:
    """Shape of a `tiles` configuration, by which it is legal or not; the kernel asserts the same numbers."""

    a: Image | Window
    b: Image | Window
    c: Image
    depth: int  # columns of a panel
    panels: int
    run: int  # adjacent rows of a set
    step: int  # values of k that are loaded at once
    sets: int  # of rows
    tiles: int  # of a matrix that a block has
    threads: int
    stage_bytes: int
    shared_bytes: int


def is_turned(problem: Problem) -> bool:
    """Whether kernels form the transpose of a column-major C: the other triangle, with the other factor conjugated."""
    return bool(problem.layout_c == "col")


@lru_cache(maxsize=4096)
def oriented(problem: Problem) -> Problem:
    """Turn a problem with a column-major C into its transpose, whose C is row-major; return any other unchanged."""
    if not is_turned(problem):
        return problem
    other = {"lower": "upper", "upper": "lower", "full": "full"}[problem.part]
    return problem.replace(layout_c="row", part=other, conj_a=problem.conj_b, conj_b=problem.conj_a)


@lru_cache(maxsize=8192)
def tiles_shape(problem: Problem, c: Any) -> TilesShape:
    """Shape of a block for a problem with a row-major C."""
    tile = min(c.TILE, problem.N)
    sets = up(problem.N, tile)
    tiles = up(sets * (sets + 1) // 2, c.PARTS)
    depth = min(c.BLK_K, problem.K)
    a, b = (_factor(problem, c, side, depth, sets) for side in "ab")
    factors = ((problem.layout_a, a),) + (((problem.layout_b, b),) if problem.two else ())
    runs = [one.read for layout, one in factors if layout == "col"]
    run = gcd(*runs, tile) if runs else 1
    result = _result(problem, c, sets, run)
    step = max(1 if layout == "col" else one.read for layout, one in factors)
    stage = a.bytes + (b.bytes if problem.two else 0)
    shared = max(c.STAGES * stage, result.bytes if c.OUT == "back" else 0)
    threads = up(c.GROUP * tiles, 32) * 32
    return TilesShape(
        a, b, result, depth, up(problem.K, depth), run, step, sets, tiles, threads, stage, up(shared, 128) * 128
    )


@dataclass(frozen=True)
class TensorShape:
    """Shape of a `tensor` configuration, by which it is legal or not; the kernel asserts the same numbers."""

    a: Image | Window
    c: Image
    panels: int
    side: int  # tiles of a square along a side
    tiles: int  # squares of the triangle
    threads: int
    stage_bytes: int
    slack: int  # bytes past the end that fragments reach
    place: int  # bytes of a group and its image, of which a ring has two
    shared_bytes: int


@lru_cache(maxsize=8192)
def tensor_shape(problem: Problem, c: Any) -> TensorShape:
    """Shape of a block with tensor cores for a problem with a row-major C."""
    squares = up(up(problem.N, _TILE), c.TILE)
    tiles = squares * (squares + 1) // 2
    depth = min(c.BLK_K, problem.K)
    a, result = _panel(problem, c, depth), _fragments(problem, c)
    side = up(up(problem.N, _TILE), squares)
    reach = max(0, side * _TILE - problem.N)  # rows beyond the last: of several squares the last one ends there
    slack = up(reach * problem.itemsize * (1 if problem.layout_a == "col" else a.pitch), 16) * 16
    warps = c.GROUP * up(tiles, c.PARTS)
    image = result.bytes if c.OUT == "back" else 0
    place = up(max(a.bytes + slack, image), 128) * 128
    is_ring = depth == problem.K and c.STAGES == 2
    shared = 2 * place if is_ring else up(max(c.STAGES * a.bytes + slack, image), 128) * 128
    return TensorShape(a, result, up(problem.K, depth), side, tiles, 32 * warps, a.bytes, slack, place, shared)


def _panel(problem: Problem, c: Any, depth: int) -> Image | Window:
    """A panel for tensor cores: rows of a fragment are adjacent, or reads at least keep apart."""
    alone = operands.alone(problem, operands.of(problem, "a"), (problem.N, problem.K))
    is_row = problem.layout_a != "col"
    found: list[Image | Window]
    if depth == problem.K:
        found = list(_wider(images.of_operand(alone, "c", c.GROUP), 4))
    else:
        found = list(windows(alone, "c", (problem.N, depth) if is_row else (depth, problem.N)))
    clash = stream_clash(problem, is_row)
    natural = [one for one in found if problem.dtype == "float64" and is_row and one.pitch % 8 == 4]
    return (natural + [one for one in found if one.pitch % clash] + found)[0]


def _wider(image: Image, most: int) -> Iterator[Image]:
    """Images that hold the same, with lines of up to `most` times 16 bytes more where the feed has padding."""
    yield from images.padded(image)
    if image.feed != "elements" and (image.feed != "flat" or (not image.shifted and image.length % image.vector == 0)):
        even = up(image.length, image.vector)
        if image.feed == "matrices" and image.length % image.vector:
            return
        for pad in range(2, most):
            pitch = (even + pad) * image.vector
            yield replace(image, pitch=pitch, matrix=up(image.lines * pitch, image.vector) * image.vector)


def _fragments(problem: Problem, c: Any) -> Image:
    """C as fragments of the tensor cores are gathered: eight rows, four pairs of columns, and their mirrors."""
    alone, size = operands.alone(problem, operands.of(problem, "c"), spec.shape(problem, "c")), problem.itemsize

    def collisions(one: Image) -> int:
        below = [lane // 4 * one.pitch + lane % 4 * 2 for lane in range(32)]
        above = [lane % 4 * 2 * one.pitch + lane // 4 for lane in range(32)]
        written = [offsets for other, offsets in (("upper", below), ("lower", above)) if problem.part != other]
        return sum(images.wavefronts(offsets, size) for offsets in written)

    return min(_wider(images.of_operand(alone, "c", c.GROUP), 4), key=lambda one: (collisions(one), one.bytes))


def adjacent(problem: Problem) -> int:
    """Entries of a row of C that may be stored at once: they begin on boundaries of their common size."""
    if problem.layout_c == "any" or not problem.aligned:
        return 1
    pitch = problem.N if problem.stack_c == "packed" else problem.pitch_c
    whole = problem.N * problem.N if problem.stack_c == "packed" else 0
    return gcd(problem.N, pitch, whole, 16 // problem.itemsize)


_TILE = 16  # rows and columns of a tile of the tensor cores


def _factor(problem: Problem, c: Any, side: str, depth: int, sets: int) -> Image | Window:
    """Whole matrices of a group, or panels of one matrix; reads of the lanes of a warp keep apart."""
    alone = operands.alone(problem, operands.of(problem, side), (problem.N, problem.K))
    is_column = getattr(problem, f"layout_{side}") == "col"
    found: list[Any]
    if depth == problem.K:
        found = list(images.padded(images.of_operand(alone, "c", c.GROUP)))
    else:
        found = list(windows(alone, "c", (depth, problem.N) if is_column else (problem.N, depth)))
    lanes = _lanes(sets, c.GROUP)

    def collisions(one: Any) -> float:
        read = gcd(one.read, c.TILE) if is_column else one.read
        line = read if is_column else one.pitch  # from one set to the next
        of_rows, of_columns = (
            images.wavefronts(
                [(lane[0] * one.matrix + lane[which] * line) // read for lane in lanes], read * one.itemsize
            )
            for which in (1, 2)
        )
        return float((of_rows + of_columns) / read)

    best: Image | Window = min(found, key=lambda one: (collisions(one), one.bytes))
    return best


def _result(problem: Problem, c: Any, sets: int, run: int) -> Image:
    """C as it is gathered: entries of the lanes of a warp, and their mirrors, keep apart."""
    alone = operands.alone(problem, operands.of(problem, "c"), spec.shape(problem, "c"))
    lanes, size = _lanes(sets, c.GROUP), problem.itemsize

    def collisions(one: Image) -> int:
        below = [m * one.matrix + high * run * one.pitch + low * run for m, high, low in lanes]
        above = [m * one.matrix + low * run * one.pitch + high * run for m, high, low in lanes]
        written = [offsets for other, offsets in (("upper", below), ("lower", above)) if problem.part != other]
        return sum(images.wavefronts(offsets, size) for offsets in written)

    return min(images.padded(images.of_operand(alone, "c", c.GROUP)), key=lambda one: (collisions(one), one.bytes))


def _lanes(sets: int, group: int) -> list[tuple[int, int, int]]:
    """Matrix, set of rows and set of columns of the tiles of a warp; of large matrices, those of its last rows."""
    tiles = [(high, low) for high in range(sets) for low in range(high + 1)]
    last = tiles[-32:] if len(tiles) > 32 else tiles
    found = [(matrix, *tile) for matrix in range(max(1, min(group, 32))) for tile in last][:32]
    return (found * 32)[:32]
