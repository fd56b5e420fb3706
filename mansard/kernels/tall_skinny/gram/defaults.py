"""Rules of thumb: the configuration to use before anything was measured. First the kind of kernel, then its shape by
the width of the problem in real columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space, space_columns, space_cpu, spec, work
from .space import Config, Fragment, Ring, Tiled
from .space_columns import Columns

# Real width up to -> (WARPS_M, WARPS_N, WARPS_K, GROUPS, ROWS, FEED, KSTEP). About eight warps share the result so that
# the sums of one fit into its registers: narrow results are split along K, wide ones along M and N. ROWS make chunks of
# which shared memory holds several.
_RING_SHAPES = (
    (16, ((1, 1, 8, 1, 256, "producer", 4), (1, 1, 1, 8, 32, "own", 4), (1, 1, 1, 4, 32, "own", 4))),
    (40, ((1, 1, 8, 1, 128, "producer", 4), (1, 2, 1, 5, 32, "producer", 4))),
    (48, ((1, 3, 4, 1, 128, "producer", 4), (1, 2, 1, 4, 32, "producer", 4))),
    (64, ((2, 2, 2, 1, 64, "producer", 4), (2, 2, 1, 2, 32, "producer", 4))),
    (80, ((2, 2, 2, 1, 64, "own", 8), (2, 4, 1, 1, 32, "own", 4))),
    (96, ((3, 4, 1, 1, 64, "own", 8), (2, 4, 1, 1, 32, "own", 4))),
    (128, ((2, 4, 1, 1, 32, "own", 8), (4, 4, 1, 1, 32, "own", 4), (2, 4, 1, 1, 16, "own", 4))),
)
# Real width up to -> (WARPS_M, WARPS_N, WARPS_K, FEED, SPREAD, KSTEP), by the same count of registers and of bank
# conflicts.
_COLUMNS_SHAPES = (
    (32, ((1, 1, 8, "producer", "rotate", 4), (1, 1, 4, "producer", "rotate", 4))),
    (40, ((1, 2, 4, "own", "rotate", 4),)),
    (64, ((2, 2, 2, "producer", "rotate", 8), (2, 2, 2, "own", "rotate", 4))),
    (80, ((2, 4, 1, "producer", "rotate", 4), (2, 4, 1, "own", "none", 8))),
    (96, ((4, 4, 1, "own", "rotate", 4), (2, 4, 1, "own", "none", 8))),
    (128, ((2, 4, 1, "own", "none", 8), (2, 4, 1, "own", "none", 4), (4, 4, 1, "own", "none", 4))),
)
_FOLD = {1: 12, 2: 6, 3: 4, 4: 3, 5: 3, 6: 2, 7: 2}  # rows side by side, by columns: 12 to 15 of a fragment of 16


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    yield from _ring(problem)
    yield from _columns(problem)
    yield from _fragment(problem)
    yield from _tiled(problem)


def _ring(problem: Problem) -> Iterator[Ring]:
    if problem.layout_a != "row" or problem.layout_b != "row":
        return
    _, m, n = work.real_widths(problem, 1)
    width = max(m, n)
    fold = _FOLD.get(width, 1) if spec.is_contiguous(problem) else 1
    reduce = space.reduction(problem)
    for widest, shapes in _RING_SHAPES:
        if width > widest:
            continue
        for wm, wn, wk, groups, rows, feed, kstep in shapes:
            if problem.same and width <= 64:  # one warp sees all of A: half the products
                wm, wn, groups = 1, 1, min(8, wm * wn * groups)
            spread = "shift" if width > 64 else "rotate"  # instructions are dear where arithmetic is the limit
            for factor in (1, 2, 4):
                one = Ring(wm, wn, wk, groups, rows * factor, 1, feed, spread, kstep, fold, 1, reduce)
                for stages in space.depths(work.ring_shape(problem, one).stage_bytes * groups):
                    yield replace(one, STAGES=stages)


def _columns(problem: Problem) -> Iterator[Columns]:
    """Long copies first, in chunks that leave room for three; of few columns very long ones."""
    if "col" not in (problem.layout_a, problem.layout_b):
        return
    reduce, fold = space.reduction(problem), space_columns.folds(problem)[0]
    for least, grid, size in product((3, 2), _columns_grids(problem), (8192, 4096, 2048, 1024, 512, 256, 128)):
        wm, wn, wk, feed, spread, kstep, triangle = grid
        rows = size // problem.itemsize
        one = Columns(wm, wn, wk, 1, rows, 1, feed, spread, kstep, fold, 1, reduce, TRIANGLE=triangle)
        stage = work.shape_of(problem, one).stage_bytes
        for stages in space_columns.depths(stage)[:1]:
            if stages >= least and (size <= 2048 or stage <= 20 << 10):
                yield replace(one, STAGES=stages)


def _columns_grids(problem: Problem) -> list[tuple[int, int, int, str, str, int, bool]]:
    width = max(work.real_widths(problem, 1)[1:])
    if problem.same and width <= 48:  # one warp sees all of A: half the products
        return [(1, 1, wk, "own", "rotate", 4, False) for wk in (8, 4)]
    shapes = next((shapes for widest, shapes in _COLUMNS_SHAPES if width <= widest), ())
    grids = [(*shape, False) for shape in shapes]
    if problem.same:
        shared = [warps for warps, _, triangle in space_columns.warp_grids(problem, 1) if triangle and warps <= 8]
        ways = product(("rotate", "none"), shared)
        return [(warps, 1, max(1, 8 // warps), "own", spread, 8, True) for spread, warps in ways] + grids
    return grids


def _fragment(problem: Problem) -> Iterator[Fragment]:
    words, m, n = work.real_widths(problem, 1)
    column_major = "col" in (problem.layout_a, problem.layout_b)
    k_vector = 16 // problem.itemsize if column_major and words == 1 else 1
    for vector in (words, *((2,) if words == 1 else ())):
        for wm, wn in ((1, 1), (1, 2), (2, 2), (2, 4)):
            for tile in (8, 4, 2):
                even = max(2, vector)
                tile_m = min(tile, -(-m // (8 * even)) * even)
                tile_n = min(2 * tile, -(-n // (8 * vector)) * vector)
                wk = max(1, 8 // (wm * wn))
                for depth, kv in ((4, k_vector), (2, k_vector), (4, 1), (2, 1), (1, 1)):
                    yield Fragment(tile_m, tile_n, wm, wn, wk, depth, vector, kv, 1, 1, space.reduction(problem))


def _tiled(problem: Problem) -> Iterator[Tiled]:
    small = {"float32": 8, "float64": 8, "complex64": 6, "complex128": 4}[problem.dtype]
    for side in (small, small // 2, 2 * small):
        for block in (256, 512, 1024):
            for per_sm in (2, 1):
                tile_m, tile_n = min(side, problem.M), min(side, problem.N)
                yield Tiled(tile_m, tile_n, True, False, 1, block, per_sm, space.reduction(problem))
