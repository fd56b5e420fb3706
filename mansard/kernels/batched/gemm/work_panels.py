"""Resources of the `block` and `tensor` configurations of gemm: the numbers of panels.cuh, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any

from ....plan.problem import Problem
from ...common import images
from ...common.configs import up
from ...common.images import Image


@dataclass(frozen=True)
class Window:
    """Part of a matrix in shared memory (window.cuh), in elements."""

    lines: int
    feed: str
    shifted: bool  # it begins anywhere between 16-byte boundaries
    itemsize: int
    pitch: int
    read: int  # elements of a line that can be read at once
    group: int = 1
    matrix: int = 0

    @property
    def bytes(self) -> int:
        vector = 16 // self.itemsize
        return up(self.lines * self.pitch + (2 * vector if self.shifted else 0), vector) * 16


@dataclass(frozen=True)
class PanelShape:
    """What decides legality; the kernel asserts that it agrees."""

    a: Window
    b: Window
    c: Image
    m: int  # the tile
    n: int
    k: int
    tiles: int  # per matrix
    panels: int  # per tile
    rows: int  # of C per thread, or tiles of 16 per warp
    columns: int
    step: int  # along K
    team: int  # threads
    stage_bytes: int
    slack: int  # bytes past the end that fragments reach
    shared_bytes: int
    wavefronts: float  # accesses to shared memory per tile, between the copies in and out


def window_feed(problem: Problem, side: str, whole: bool) -> str:
    """What carries a window (`whole`: lines from end to end) to shared memory."""
    feed = images.feed(problem, side)
    length = images.lines(problem, side)[1]
    pitch = length if feed in ("flat", "matrices") else getattr(problem, f"pitch_{side}")
    if feed != "elements" and problem.aligned and pitch * problem.itemsize % 16 == 0:
        return "lines"
    return ("flat" if whole else "linear") if feed == "flat" else "elements"


def windows(problem: Problem, side: str, extents: tuple[int, int]) -> Iterator[Window]:
    """Lines x elements of operand `side`, with all pitches that its feed admits."""
    length = images.lines(problem, side)[1]
    vector, whole = 16 // problem.itemsize, extents[1] == length
    feed = window_feed(problem, side, whole)
    shifted = feed in ("flat", "linear")
    even = up(extents[1], vector) * vector
    if feed == "flat":
        pitches = [length]
    elif feed == "linear":  # as memory has it, modulo 16 bytes
        least = extents[1] + vector - 1
        pitches = [least + (length - least) % vector]
    else:
        pitches = [even, even + vector] if feed == "lines" else [even, even + vector, extents[1], extents[1] + 1]
    for pitch in pitches:
        read = 1 if shifted else gcd(length, extents[1], pitch, vector)
        # lines without gaps on both sides are one run
        one_run = feed == "lines" and whole and pitch == length and images.feed(problem, side) == "flat"
        yield Window(extents[0], "flat" if one_run else feed, shifted, problem.itemsize, pitch, read)


def _window(problem: Problem, c: Any, side: str, extents: tuple[int, int], k_adjacent: bool) -> Window:
    """The one whose reads keep apart."""
    found = list(windows(problem, side, extents))
    if c.VARIANT == "tensor":  # Outer in tensor_tile.cuh
        clash = 4 if problem.is_complex and not k_adjacent else 8
        return next((one for one in found if one.pitch % clash), found[0])
    step = "line" if k_adjacent else "run"
    steps = (step, "") if side == "a" else ("", step)
    return min(found, key=lambda one: (images.collisions(one, (c.DIM_Y, c.DIM_X), steps), one.pitch))


def _result(problem: Problem) -> Image:
    """A whole C; rows of a multiple of 128 bytes are padded."""
    image = images.of_operand(problem, "c", 1)
    clash = image.length * image.itemsize % 128 == 0
    return list(images.padded(image))[1] if clash and not image.shifted else next(images.padded(image))


@lru_cache(maxsize=8192)
def panel_shape(problem: Problem, c: Any) -> PanelShape:
    """Of a problem whose C is row-major."""
    m, n, k = min(c.BLK_M, problem.M), min(c.BLK_N, problem.N), min(c.BLK_K, problem.K)
    row_a, row_b = problem.layout_a != "col", problem.layout_b != "col"
    a = _window(problem, c, "a", (m, k) if row_a else (k, m), row_a)
    b = _window(problem, c, "b", (k, n) if row_b else (n, k), not row_b)
    result = _result(problem)
    stage = max(a.bytes + b.bytes, result.bytes if c.OUT == "back" else 0)
    if c.VARIANT == "tensor":
        team, step, slack = c.WARPS_M * c.WARPS_N * 32, 4, 0
        rows, columns = up(up(m, 16), c.WARPS_M), up(up(n, 16), c.WARPS_N)
        reach_a, reach_b = rows * c.WARPS_M * 16, columns * c.WARPS_N * 16
        end_a = problem.itemsize * (reach_a * a.pitch + k if row_a else k * a.pitch + reach_a)
        end_b = problem.itemsize * (k * b.pitch + reach_b if row_b else reach_b * b.pitch + k)
        slack = max(0, end_a - stage, a.bytes + end_b - stage)
        reads = c.WARPS_M * c.WARPS_N * up(k, 4) * 2 * (rows + columns) * problem.itemsize / 4
    else:
        team, slack = c.DIM_X * c.DIM_Y, 0
        run_m, run_n = 1 if row_a else a.read, b.read if row_b else 1
        rows, columns = up(m // run_m, c.DIM_Y) * run_m, up(n // run_n, c.DIM_X) * run_n
        step = max(a.read if row_a else 1, 1 if row_b else b.read)
        lanes = (c.DIM_Y, c.DIM_X)
        reads = team / 32 * k * rows * images.accesses(a, lanes, ("line" if row_a else "run", ""))
        reads += team / 32 * k * columns * images.accesses(b, lanes, ("", "run" if row_b else "line"))
    panels = up(problem.K, k)
    of_team = c.STAGES * stage + (result.bytes if c.OUT == "own" else 0)
    laid = 0 if c.OUT == "direct" else 1.5 * m * n * problem.itemsize / 128
    return PanelShape(
        a, b, result, m, n, k, up(problem.M, m) * up(problem.N, n), panels, rows, columns, step, team, stage,
        up(slack, 16) * 16, up(c.PER_BLOCK * of_team + up(slack, 16) * 16, 128) * 128, panels * reads + laid,
    )  # fmt: skip


def adjacent(problem: Problem) -> int:
    """Entries of a row of C that are stored at once: they begin on boundaries of their own size."""
    if problem.layout_c == "any" or not problem.aligned:
        return 1
    pitch = problem.N if problem.stack_c == "packed" else problem.pitch_c
    whole = problem.M * problem.N if problem.stack_c == "packed" else 0
    return gcd(problem.N, pitch, whole, 16 // problem.itemsize)
