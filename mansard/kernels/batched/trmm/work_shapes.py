"""Shared memory of the GPU configurations of trmm: the numbers of the kernels, and how their operands lie there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....plan.problem import Problem
from ...common import images
from ...common.configs import up
from ...common.images import Image
from ...common.lanes import group, plain_images, stage_and_shared_bytes
from ..gemm.work_panels import Window, adjacent, windows
from ..trsm.systems import system


@dataclass(frozen=True)
class LanesShape:
    """Shape of a `lanes` configuration, by which it is legal or not; the kernel asserts the same numbers."""

    a: Image
    b: Image
    x: Image
    group: int  # matrices per warp and turn
    rows: int  # of X per lane
    columns: int
    step: int  # along the columns of A
    stage_bytes: int
    shared_bytes: int
    wavefronts: float  # accesses to shared memory per step of a warp, for all rows and columns of its lanes


@dataclass(frozen=True)
class BlockShape:
    """Shape of a `block` or `tensor` configuration, by which it is legal or not; kernels assert the same numbers."""

    a: Window
    b: Window
    order: int  # of a block of A
    blocks: int  # along the diagonal
    tiles: int  # of columns, per matrix
    rows: int  # of X per thread, or tiles of 16 per warp
    columns: int
    step: int  # along the columns of A
    adjacent: int  # entries of a row of X that may be stored at once
    shared_bytes: int
    wavefronts: float  # accesses to shared memory per step of a warp, for all rows and columns of its threads


def _steps(operands: Problem) -> dict[str, tuple[str, str]]:
    """Distances between rows and between columns of a team's lanes in the images of A, B and X."""
    return {
        "a": ("run" if operands.layout_a == "col" else "line", ""),
        "b": ("", "line" if operands.layout_b == "col" else "run"),
        "c": ("run", "line") if operands.layout_c == "col" else ("line", "run"),
    }


def _lanes_of(operands: Problem, m: int, n: int, steps: tuple[str, str]) -> tuple[tuple[int, int], tuple[str, str]]:
    """Lanes and steps with the slower one first: neighbouring lanes have neighbouring entries of X."""
    return ((n, m), (steps[1], steps[0])) if operands.layout_c == "col" else ((m, n), steps)


def _shares(operands: Problem, a: Any, b: Any, sizes: tuple[int, int], lanes: tuple[int, int]) -> tuple[int, int, int]:
    """Rows and columns of X per lane, and columns of A per step."""
    run_m = a.read if operands.layout_a == "col" else 1
    run_n = 1 if operands.layout_b == "col" else b.read
    step = max(1 if operands.layout_a == "col" else a.read, b.read if operands.layout_b == "col" else 1)
    runs = zip(sizes, (run_m, run_n), lanes, strict=True)
    rows, columns = (up(size // run, count) * run for size, run, count in runs)
    return rows, columns, step


def _wavefronts(operands: Problem, a: Any, b: Any, rows: int, columns: int, lanes: tuple[int, int]) -> float:
    steps = _steps(operands)
    of_a, of_b = (images.accesses(one, *_lanes_of(operands, *lanes, steps[name])) for one, name in ((a, "a"), (b, "b")))
    return float(rows * of_a + columns * of_b)


@lru_cache(maxsize=8192)
def lanes_shape(problem: Problem, c: Any) -> LanesShape:
    """Shares and images of a `lanes` configuration."""
    operands = system(problem).operands
    steps, lanes, plain = _steps(operands), (c.LANES_M, c.LANES_N), plain_images(operands, c)
    a, b, x = (images.spread(plain[name], *_lanes_of(operands, *lanes, steps[name])) for name in "abc")
    if c.OUT == "back" and plain["b"] == plain["c"]:
        x = b
    stage, shared = stage_and_shared_bytes(operands, c, {"a": a, "b": b}, x, "b" if c.OUT == "back" else "")
    rows, columns, step = _shares(operands, a, b, (problem.N, problem.NRHS), lanes)
    crossed = _wavefronts(operands, a, b, rows, columns, lanes)
    return LanesShape(a, b, x, group(c), rows, columns, step, stage, shared, crossed)


@lru_cache(maxsize=8192)
def block_shape(problem: Problem, c: Any) -> BlockShape:
    """Blocks of A, and all rows of some columns of B, for `block` and `tensor`."""
    operands = system(problem).operands
    order, columns = min(c.BLK_M, problem.N), min(c.BLK_N, problem.NRHS)
    of_b = (problem.N, columns) if operands.layout_b != "col" else (columns, problem.N)
    found = {"a": _blocks_of_a(operands, order), "b": list(windows(operands, "b", of_b))}
    put = adjacent(operands) if operands.layout_c == "row" else 1
    sizes = order, up(problem.N, order), up(problem.NRHS, columns)
    if c.VARIANT == "tensor":
        a, b = (_without_clash(operands, side, found[side]) for side in "ab")
        rows, of_lane = (up(up(size, 16), warps) for size, warps in ((order, c.WARPS_M), (columns, c.WARPS_N)))
        shape = (rows, of_lane, 8, put, 2 * 16 * (rows + of_lane) * problem.itemsize / 128)
    else:
        lanes = _lanes_of_warp(operands, c)
        a, b = (_without_collisions(operands, side, found[side], lanes) for side in "ab")
        rows, of_lane, step = _shares(operands, a, b, (order, columns), (c.DIM_Y, c.DIM_X))
        shape = (rows, of_lane, step, put, _wavefronts(operands, a, b, rows, of_lane, lanes))
    strips = _strips_bytes(problem, c, of_lane, put, operands.layout_c) if c.VARIANT == "tensor" else 0
    shared = up(c.STAGES * a.bytes + b.bytes + strips, 128) * 128
    return BlockShape(a, b, *sizes, *shape[:4], shared, shape[4])


def _strips_bytes(problem: Problem, c: Any, tiles: int, put: int, layout: str) -> int:
    """Bytes by way of which X leaves the warps, where entries may be stored one by one only (tensor_tile.cuh)."""
    if problem.is_complex or put > 1 or layout == "col":
        return 0
    return int(c.WARPS_M * c.WARPS_N * 8 * (16 * tiles + 8) * problem.itemsize)


def _lanes_of_warp(operands: Problem, c: Any) -> tuple[int, int]:
    """Rows and columns of the threads of a warp."""
    if operands.layout_c == "col":
        rows = min(c.DIM_Y, 32)
        return rows, max(1, min(c.DIM_X, 32 // rows))
    columns = min(c.DIM_X, 32)
    return max(1, min(c.DIM_Y, 32 // columns)), columns


def _without_collisions(operands: Problem, side: str, found: list[Window], lanes: tuple[int, int]) -> Window:
    """The window whose reads by the lanes of a warp collide least."""
    told = _lanes_of(operands, *lanes, _steps(operands)[side])
    return min(found, key=lambda one: (images.collisions(one, *told), one.pitch))


def _without_clash(operands: Problem, side: str, found: list[Window]) -> Window:
    """The window whose fragments hit different banks (Outer in gemm/tensor_tile.cuh)."""
    k_adjacent = (getattr(operands, f"layout_{side}") == "col") == (side == "b")
    clash = 4 if operands.is_complex and not k_adjacent else 8
    return next((one for one in found if one.pitch % clash), found[0])


def _blocks_of_a(operands: Problem, order: int) -> list[Window]:
    """Windows that are copied line by line, of which those with the diagonal are copied in part."""
    found = list(windows(operands, "a", (order, order)))
    if found[0].feed != "flat":
        return found
    if found[0].shifted:  # whole lines that begin anywhere: as parts of lines, with a gap between them
        length, vector = operands.K, 16 // operands.itemsize
        least = order + vector - 1
        return [Window(order, "linear", True, operands.itemsize, least + (length - least) % vector, 1)]
    return [Window(one.lines, "lines", False, one.itemsize, one.pitch, one.read) for one in found]
