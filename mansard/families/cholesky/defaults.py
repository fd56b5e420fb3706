"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...codegen.geometry import Device
from ...plan.problem import Problem
from .. import configs
from . import space, space_cpu, work
from .space import Block, Config, Lanes, Tile

TRUSTED = True  # latencies decide, which the model does not see


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    for config in (*_measured(problem), *_halves(problem), *_blocks(problem, device)):
        fitting = space.resident(problem, config, device)
        if fitting is not None:
            yield fitting


def _measured(problem: Problem) -> Iterator[Lanes | Tile]:
    """What won on an H200, factors in double precision: matrices of 17 to 31 rows in teams of 8 and 16 lanes, though up
    to 40 bytes of a lane's rows spill; half a warp to 36; and where leaving out a triangle pays."""
    N = problem.N
    if problem.dtype != "float64" or problem.want != "factor" or not 17 <= N <= 64:
        return
    if N == 24:
        yield Lanes(8, True, 4)
    if N <= 27:
        yield Lanes(8, False, 1)
    elif N <= 31:
        yield Lanes(16, False, 4)
    elif 33 <= N <= 36:
        yield Tile(8, 2, False, 1)
    elif 32 < N <= 56:
        yield Tile(8, 4, False, 1)


_LONG = 96  # bytes of a line from which memory moves less if half of it stays away
# What a thread holds of a matrix at the most, in units of 8 bytes: of unrolled rows, by the lanes of a team (solutions
# take more), and of a tile of half a warp and of a whole one. H200: a lane alone is slower than two (2 rows: 86 % of
# the copy bandwidth instead of 95), and takes over where right-hand sides are few.
_ROWS = {"factor": {2: 6, 4: 24, 8: 44}, "complex factor": {2: 6, 4: 24, 8: 23}, "solve": {1: 36, 2: 26, 4: 18, 8: 18}}
_HALF, _WHOLE = 24, 72


def _halves(problem: Problem) -> Iterator[Lanes | Tile]:
    """Without the other triangle where lines are long."""
    every: list[Lanes | Tile] = [*_lanes(problem), *_tiles(problem)]
    for rough in every:
        if problem.N * problem.itemsize >= _LONG:
            yield replace(rough, TRIANGLE=True)
        yield rough


def _lanes(problem: Problem) -> Iterator[Lanes]:
    """As few lanes as hold their rows."""
    if problem.N > space.NARROW:
        return
    kind = "complex factor" if problem.is_complex and problem.want == "factor" else problem.want
    for lanes, most in _ROWS[kind].items():
        config = Lanes(lanes)
        held = work.entries(problem, config) + work.rows(problem, config) * problem.NRHS
        if held * max(1.0, problem.itemsize / 8) <= most:
            yield from (Lanes(lanes, WARPS=warps) for warps in (4, 2))


def _tiles(problem: Problem) -> Iterator[Tile]:
    """Half a warp per matrix, or a whole one."""
    words = problem.itemsize / 8
    for config, most in ((Tile(8, 2, WARPS=4), _HALF), (Tile(8, 4), _WHOLE)):
        if (work.entries(problem, config) + work.rows(problem, config) * problem.NRHS) * words <= most:
            yield config


def _blocks(problem: Problem, device: Device) -> Iterator[Block]:
    """More warps per matrix where a multiprocessor has room for one matrix only."""
    alone = 2 * work.shared_bytes(problem, Block()) > device.shared_per_multiprocessor
    yield from (Block(warps) for warps in ((8, 4) if alone else (4, 8)))
