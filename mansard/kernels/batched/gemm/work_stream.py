"""Resources of the `stream` configurations of gemm: the numbers of kernel_stream.cuh, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....plan.problem import Problem
from ...common.configs import up
from .work_panels import Window, windows

SPLIT = ("float32", "complex64")  # dtypes that are multiplied as three TF32 products
_TILE = 16  # rows and columns of a warp's tiles
_STRIP_ROWS, _STRIP_PAD = 8, 64  # rows of a strip; bytes between them
REGISTERS_OF_TILE = 16  # sums of a real tile per lane: 8 of double precision, or 16 of single precision


@dataclass(frozen=True)
class StreamShape:
    """What decides legality; the kernel asserts that it agrees."""

    a: Window
    b: Window
    m: int  # the tile
    n: int
    k: int
    tiles: int  # per matrix
    panels: int  # per tile
    rows: int  # tiles of 16 per warp
    columns: int
    threads: int
    stage_bytes: int
    slack: int  # bytes past the end that fragments reach
    shared_bytes: int
    fetched: int  # bytes that blocks copy per matrix
    wavefronts: float  # accesses to shared memory per tile


def clash(problem: Problem, k_adjacent: bool) -> int:
    """Pitches that are multiples of this many elements make lanes collide: `Outer` and `Spread` avoid the others."""
    if problem.dtype == "float32" and not k_adjacent:
        return 16
    return 4 if problem.dtype == "complex128" and not k_adjacent else 8


def _window(problem: Problem, side: str, extents: tuple[int, int], k_adjacent: bool) -> Window:
    found = list(windows(problem, side, extents))
    return next((one for one in found if one.pitch % clash(problem, k_adjacent)), found[0])


@lru_cache(maxsize=8192)
def stream_shape(problem: Problem, c: Any) -> StreamShape:
    """Of a problem whose C is row-major."""
    size, warps = problem.itemsize, c.WARPS_M * c.WARPS_N
    m, n, k = min(c.BLK_M, problem.M), min(c.BLK_N, problem.N), min(c.BLK_K, problem.K)
    row_a, row_b = problem.layout_a != "col", problem.layout_b != "col"
    a = _window(problem, "a", (m, k) if row_a else (k, m), row_a)
    b = _window(problem, "b", (k, n) if row_b else (n, k), not row_b)
    tiles_m, tiles_n, panels = up(problem.M, m), up(problem.N, n), up(problem.K, k)
    common_a = problem.stack_a == "shared" and tiles_m * panels == 1
    common_b = problem.stack_b == "shared" and tiles_n * panels == 1
    stage = (0 if common_a else a.bytes) + (0 if common_b else b.bytes)
    common = (a.bytes if common_a else 0) + (b.bytes if common_b else 0)
    rows, columns = up(up(m, _TILE), c.WARPS_M), up(up(n, _TILE), c.WARPS_N)
    strips = warps * _STRIP_ROWS * (columns * _TILE * size + _STRIP_PAD)
    reach_a, reach_b = rows * c.WARPS_M * _TILE, columns * c.WARPS_N * _TILE
    end_a = size * (reach_a * a.pitch + k if row_a else k * a.pitch + reach_a)
    end_b = size * (k * b.pitch + reach_b if row_b else reach_b * b.pitch + k)
    behind_a = 0 if common_b and not common_a else b.bytes  # what follows A before the strips
    beyond = max(end_a - a.bytes - behind_a, end_b - b.bytes)
    slack = up(max(0, beyond - strips), 16) * 16
    wanted = common + c.STAGES * stage + strips
    fetched = size * problem.K * (
        (0 if common_a else tiles_n * problem.M) + (0 if common_b else tiles_m * problem.N)
    )
    reads = warps * up(k, 4) * 2 * (rows + columns) * size / 4
    laid = 2 * m * n * size / 128
    return StreamShape(
        a, b, m, n, k, tiles_m * tiles_n, panels, rows, columns, warps * 32, stage, slack,
        up(wanted + slack, 128) * 128, fetched, panels * reads + laid,
    )  # fmt: skip


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    shape, words = stream_shape(problem, c), 2 if problem.is_complex else 1
    sums = REGISTERS_OF_TILE * shape.rows * shape.columns
    if problem.dtype in SPLIT:  # halves of 8 values of A per tile, of 2 slots of B
        fragments = 16 * shape.rows + 8
    else:
        fragments = c.KSTEP * (shape.rows + shape.columns)
    feeds = 8 * sum(feed in ("elements", "linear") for feed in (shape.a.feed, shape.b.feed))
    return int(words * (sums + fragments)) + 52 + feeds + (12 if problem.accumulate else 0)


# Clocks that a quarter of a multiprocessor takes for four (eight) values of k of a 16 x 8 fragment: 1024 flops at 64
# per clock; three TF32 products of 2048 flops at about 320 per clock. A warp alone keeps its quarter half busy.
_CLOCKS_DOUBLE, _CLOCKS_SPLIT, _ALONE = 16, 20, 1.8
_PANEL_CLOCKS, _SLOT_CLOCKS, _STORE_CLOCKS = 100, 100, 20  # of a barrier and the first loads; of a strip; of a store


def clocks_in_turn(problem: Problem, c: Any) -> float:
    """Clocks of one tile from its first panel to its last store, if a block is alone on its multiprocessor."""
    shape, words = stream_shape(problem, c), 2 if problem.is_complex else 1
    warps = shape.threads // 32
    step, clocks = (8, _CLOCKS_SPLIT) if problem.dtype in SPLIT else (4, _CLOCKS_DOUBLE)
    fragments = 2 * shape.rows * shape.columns * up(problem.K, step) * words * words
    products = fragments * clocks * max(_ALONE, up(warps, 4))
    stores = _STRIP_ROWS * shape.columns * _TILE * problem.itemsize / 512  # instructions of a strip
    strips = 2 * shape.rows * (_SLOT_CLOCKS + stores * _STORE_CLOCKS)
    return float(products + shape.panels * _PANEL_CLOCKS + strips)


def balance(problem: Problem, c: Any) -> float:
    """Share of the tensor cores that have work: the quarter of a multiprocessor with the most warps is waited for."""
    warps = stream_shape(problem, c).threads // 32 * c.BLOCKS_PER_SM
    return float(warps / (4 * up(warps, 4)))
