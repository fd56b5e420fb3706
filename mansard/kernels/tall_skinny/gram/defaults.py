"""Rules of thumb: the configuration to use before anything was measured. First the kind of kernel, then its shape by
the width of the problem in real columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from . import space, space_columns, space_cpu, space_entries, spec, work, work_columns
from .space import Config, Fragment, Ring, Tiled
from .space_columns import Columns
from .space_entries import Entries

_WARPS = 8  # warps of a block: two for each scheduler of a multiprocessor
_SUMS = 128  # registers of a warp's lanes for their sums, of the 255 that there are
_GRIDS = (1, 1), (1, 2), (2, 2), (2, 4), (4, 4)  # warps along M and N; what is left of them goes along K
_WIDEST = 128  # real columns: a square of as many float64 sums takes half of a multiprocessor's registers
_CHUNKS = 3  # chunks of rows that shared memory must hold: one is read while two are on their way
_BESIDE, _BESIDE_COLUMNS = 7 << 10, 3 << 10  # bytes of a block's shared memory that no chunk takes: barriers, alignment
_FOLD = {1: 12, 2: 6, 3: 4, 4: 3, 5: 3, 6: 2, 7: 2}  # rows side by side, by columns: 12 to 15 of a fragment of 16


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    yield from _ring(problem, device)
    yield from _columns(problem, device)
    yield from swept(problem, device)
    yield from space_entries.ranked(problem, space.reduction(problem))
    yield from _fragment(problem)
    yield from _tiled(problem)


def _ring(problem: Problem, device: Device) -> Iterator[Ring]:
    if problem.layout_a != "row" or problem.layout_b != "row":
        return
    _, m, n = work.real_widths(problem, 1)
    width = max(m, n)
    fold = _FOLD.get(width, 1) if spec.is_contiguous(problem) else 1
    reduce, room = space.reduction(problem), device.shared_per_block - _BESIDE
    for shape in _ring_shapes(problem, device, width, fold):
        wm, wn, groups = shape.WARPS_M, shape.WARPS_N, shape.GROUPS
        if problem.same and width <= 64:  # one warp sees all of A: half the products
            wm, wn, groups = 1, 1, min(8, wm * wn * groups)
        spread = "shift" if width > 64 else "rotate"  # instructions are dear where arithmetic is the limit
        for factor in (1, 2, 4):
            rows = shape.ROWS * factor
            one = Ring(wm, wn, shape.WARPS_K, groups, rows, 1, shape.FEED, spread, shape.KSTEP, fold, 1, reduce)
            for stages in space.depths(work.ring_shape(problem, one).stage_bytes * groups, room):
                yield replace(one, STAGES=stages)


def _ring_shapes(problem: Problem, device: Device, width: int, fold: int) -> Iterator[Ring]:
    """Shapes that sweeps found; elsewhere eight warps with the sums of each in its registers, split along K where the
    result is narrow, and chunks of rows of which shared memory holds several."""
    yield from (c for c in measured.configs(space, problem, device, width=width) if isinstance(c, Ring))
    if measured.is_swept("gram", device):
        return
    room, row_bytes = device.shared_per_block // _CHUNKS, fold * (problem.M + problem.N) * problem.itemsize
    for wm, wn, wk in _grids(width):
        most = (rows for rows in (256, 128, 64, 32, 16) if rows * row_bytes <= room and rows >= 4 * wk)
        rows = next(most, 16 * max(1, wk // 4))
        yield Ring(wm, wn, wk, 1, rows, FEED="producer" if width <= 64 else "own")


def _grids(width: int) -> Iterator[tuple[int, int, int]]:
    """Warps along M, N and K for a result of `width` real columns: tiles of 8 x 8 sums take four registers per lane."""
    slots = configs.up(width, 8)
    for wm, wn in _GRIDS if width <= _WIDEST else ():
        if 4 * configs.up(slots, wm) * configs.up(slots, wn) <= _SUMS:
            yield wm, wn, max(1, _WARPS // (wm * wn))


def _columns(problem: Problem, device: Device) -> Iterator[Columns]:
    """Long copies first, in chunks that leave room for three; of few columns very long ones."""
    if "col" not in (problem.layout_a, problem.layout_b):
        return
    reduce, fold = space.reduction(problem), space_columns.folds(problem)[0]
    for least, grid, size in product((3, 2), _columns_grids(problem, device), (8192, 4096, 2048, 1024, 512, 256, 128)):
        wm, wn, wk, feed, spread, kstep, triangle = grid
        rows = size // problem.itemsize
        one = Columns(wm, wn, wk, 1, rows, 1, feed, spread, kstep, fold, 1, reduce, TRIANGLE=triangle)
        stage = work.shape_of(problem, one).stage_bytes
        for stages in space_columns.depths(stage, device.shared_per_block - _BESIDE_COLUMNS)[:1]:
            if stages >= least and (size <= 2048 or stage <= 20 << 10):
                yield replace(one, STAGES=stages)


def swept(problem: Problem, device: Device) -> Iterator[Entries]:
    """Configurations that sweeps found the best for two matrices whose columns start anywhere."""
    if problem.same or not work_columns.is_column_major(problem) or not space_entries.is_needed(problem):
        return
    reduce, width = space.reduction(problem), max(work.real_widths(problem, 1)[1:])
    for found in measured.configs(space, problem, device, width=width):
        if isinstance(found, Entries):
            one = replace(found, REDUCE=reduce)
            if space.illegal(problem, one, device) is None:
                yield one


def _columns_grids(problem: Problem, device: Device) -> list[tuple[int, int, int, str, str, int, bool]]:
    width = max(work.real_widths(problem, 1)[1:])
    if problem.same and width <= 48:  # one warp sees all of A: half the products
        return [(1, 1, wk, "own", "rotate", 4, False) for wk in (8, 4)]
    found = [config for config in measured.configs(space, problem, device, width=width) if isinstance(config, Columns)]
    grids = [(c.WARPS_M, c.WARPS_N, c.WARPS_K, c.FEED, c.SPREAD, c.KSTEP, False) for c in found]
    if not measured.is_swept("gram", device):
        grids = [(*grid, "own", "rotate" if width <= 64 else "none", 4, False) for grid in _grids(width)]
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
