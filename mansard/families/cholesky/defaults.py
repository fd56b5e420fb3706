"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...codegen.geometry import Device
from ...plan.problem import Problem
from .. import configs
from . import space, space_cpu, spec, work
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
    if spec.is_ragged(problem):
        rough: tuple[Any, ...] = (*_ragged(problem), *_blocks(problem, device))
    else:
        rough = (*_measured(problem), *_direct(problem), *_halves(problem), *_blocks(problem, device))
    for config in rough:
        fitting = space.resident(problem, config, device)
        if fitting is not None:
            yield fitting


def _measured(problem: Problem) -> Iterator[Lanes | Tile]:
    """What won on an H200 where the rules below say something else. In double precision teams of 8 and 16 lanes, though
    up to 64 bytes of a lane's rows spill: for factors of 17 to 31 rows, for solutions from 9 to 32."""
    N, dtype = int(problem.N), problem.dtype
    if dtype == "float64" and problem.want == "solve" and 9 <= N <= 32:
        yield Lanes(8 if N <= 16 else 16)
    if problem.want != "factor":
        return
    if dtype == "float64" and N == 24:  # where leaving out a triangle pays
        yield Lanes(8, True)
    if dtype == "float64" and 17 <= N <= 31:
        yield Lanes(8, False, 1) if N <= 27 else Lanes(16)
    if dtype == "float32" and 13 <= N <= 16:
        yield Lanes(4)
    if dtype == "complex64" and 25 <= N <= 32:
        yield Lanes(16)
    if dtype in ("float32", "complex64") and N % 8 == 0 and 32 <= N <= 64:
        yield Tile(8, 2, WARPS=4) if N == 32 else Tile(8, 4)


# The rows from which matrices are better off without images. Half a warp per matrix takes half the instructions of a
# whole one, which pays as long as three warps share a quarter of a multiprocessor, and in complex128, where elements
# are moved one by one anyway, as long as two do.
_DIRECT_FROM = {"float32": 33, "float64": 33, "complex64": 33, "complex128": 17}
_HALF_REGISTERS = {"float64": 168, "complex128": 230}


def _direct(problem: Problem) -> Iterator[Tile]:
    """Factors from registers to registers, but for multiples of eight: their images have no gaps, and memory is read in
    longer pieces. Half a warp needs pairs of elements, which odd lines do not have."""
    order, dtype = int(problem.N), problem.dtype
    paired = dtype == "complex128"
    if problem.want != "factor" or order < _DIRECT_FROM[dtype] or (order % 8 == 0 and not paired):
        return
    half = Tile(8, 2, DIRECT=True)
    if (paired or order % 2 == 0) and work.registers(problem, half) <= _HALF_REGISTERS.get(dtype, 0):
        yield half
    if order <= 64:
        yield Tile(8, 4, DIRECT=True)


def _ragged(problem: Problem) -> Iterator[Tile]:
    """Half a warp where a matrix is short of work for a whole one; above what registers hold, blocks."""
    order, most = int(problem.N), 48 if problem.dtype == "complex128" else 64
    if order <= 32:
        yield Tile(8, 2, DIRECT=True)
    if order <= most:
        yield Tile(8, 4, DIRECT=True)


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
    """More warps per matrix where a multiprocessor has room for one matrix only; fewer where they hold the panels."""
    alone = 2 * work.shared_bytes(problem, Block()) > device.shared_per_multiprocessor
    if problem.dtype == "float64" and problem.want == "factor" and work.rows(problem, Block(2)) <= 2:
        yield Block(2)
    yield from (Block(warps) for warps in ((8, 4) if alone else (4, 8)))
