"""Rules of thumb: the configuration to use before anything was measured. First the kind of kernel, then its shape by
the width of the problem in real columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ...codegen.geometry import Device
from ...plan.problem import Problem
from . import space, space_cpu, spec, work
from .space import Config, Fragment, Ring, Tiled

# real width up to -> (WARPS_M, WARPS_N, WARPS_K, GROUPS, ROWS, FEED)
_RING_SHAPES = (
    (16, ((1, 1, 1, 8, 64, "own"), (1, 1, 1, 8, 32, "own"), (1, 1, 1, 4, 32, "own"))),
    (32, ((2, 2, 1, 3, 32, "producer"), (1, 2, 1, 5, 32, "producer"))),
    (48, ((1, 2, 1, 4, 16, "producer"), (1, 2, 1, 4, 32, "producer"))),
    (64, ((2, 2, 1, 3, 16, "producer"), (2, 2, 1, 2, 32, "producer"))),
    (96, ((2, 3, 1, 2, 16, "own"), (2, 4, 1, 1, 32, "own"))),
    (128, ((4, 4, 1, 1, 32, "own"), (2, 4, 1, 1, 16, "own"))),
)
_FOLD = {1: 12, 2: 6, 3: 4, 4: 3, 5: 3, 6: 2, 7: 2}


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    for config in ranked(problem, device):
        if variant in (None, config.VARIANT) and space.illegal(problem, config, device) is None:
            return config
    return None


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    yield from _ring(problem)
    yield from _fragment(problem)
    yield from _tiled(problem)


def _ring(problem: Problem) -> Iterator[Ring]:
    if problem.layout_a != "row" or problem.layout_b != "row":
        return
    words, m, n = work.real_widths(problem, 1)
    width = max(m, n)
    fold = _FOLD.get(width, 1) if spec.is_contiguous(problem) else 1
    reduce = space.reduction(problem)
    real = problem.itemsize // words
    for widest, shapes in _RING_SHAPES:
        if width > widest:
            continue
        for wm, wn, wk, groups, rows, feed in shapes:
            if problem.same and width <= 64:  # one warp sees all of A: half the products
                wm, wn, groups = 1, 1, min(8, wm * wn * groups)
            # multiples of 16 doubles (32 floats) wide hit the same banks in every row
            shifts = (True, False) if width % (128 // real) == 0 or (width > 64 and width % 8 == 0) else (False, True)
            for shift, factor in product(shifts, (1, 2, 4)):
                one = Ring(wm, wn, wk, groups, rows * factor, 1, feed, shift, 4, fold, 1, reduce)
                for stages in space.depths(work.ring_shape(problem, one).stage_bytes * groups):
                    yield replace(one, STAGES=stages)


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
