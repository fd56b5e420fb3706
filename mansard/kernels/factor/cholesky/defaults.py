"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space, space_cpu, spec, work
from .shapes import piece
from .space import Block, Config, Lanes, Tile

TRUSTED = True  # latencies decide, which the model does not see


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield from space_cpu.ranked(problem, device)
        return
    if spec.is_ragged(problem):
        rough: tuple[Any, ...] = (*_ragged(problem), *_blocks(problem, device))
    else:
        rough = (*_measured(problem), *_factors(problem), *_halves(problem), *_blocks(problem, device))
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
    if dtype == "float64" and N in (20, 22):  # where leaving out a triangle pays
        yield Lanes(8, True, 1)
    if dtype == "float64" and 17 <= N <= 25 and N != 24:
        yield Lanes(8, False, 1)
    if dtype == "float32" and N <= 32:
        yield from _single(N)
    if dtype == "complex64" and N in (20, 24, 28):
        yield Tile(8, 2, True, WARPS=2)


def _single(N: int) -> Iterator[Lanes | Tile]:
    """The same of float32 numbers."""
    if 13 <= N <= 16:
        yield Lanes(4)
    if 17 <= N <= 23 or (N % 2 and N > 23):
        yield Lanes(8, WARPS=2)
    if N == 26:
        yield Tile(8, 2, DIRECT=True)
    if N == 28:
        yield Tile(8, 2)
    if N == 30:
        yield Lanes(16, WARPS=2)


# The rows from which matrices are better off without images, multiples of eight with those of a triangle. Half a warp
# per matrix takes half the instructions of a whole one, which pays as long as three warps share a quarter of a
# multiprocessor.
_DIRECT_FROM = {"float32": 33, "float64": 26, "complex64": 18, "complex128": 17}
_HALF_DIRECT = {"float32": 128, "float64": 168, "complex64": 168, "complex128": 180}
_TRIANGLE_FROM, _HALF_TRIANGLE = 24, 162


def _factors(problem: Problem) -> Iterator[Tile]:
    """Factors from registers to registers, but for multiples of eight: without images their rows, in one set of a
    cache, would wait for each other. Two warps where the registers of one do not suffice."""
    order, dtype = int(problem.N), problem.dtype
    if problem.want != "factor" or order > 64:
        return
    paired, begun = dtype == "complex128", order >= _DIRECT_FROM[dtype]
    even, small = order % 8 == 0 and order >= _TRIANGLE_FROM, paired and begun and order < _TRIANGLE_FROM
    for rough in (Tile(8, 2), Tile(8, 4), Tile(8, 8, WARPS=2)):
        single = rough.LANES_N == 2 and dtype in ("float32", "complex64")
        triangle = replace(rough, TRIANGLE=True, WARPS=4 if single else rough.WARPS)
        wanted = even or small or (paired and begun and rough.LANES_N == 8)
        if wanted and _pays(problem, triangle, _HALF_TRIANGLE):
            yield triangle
        direct = replace(rough, DIRECT=True)
        if (paired or order % 8) and begun and _pays(problem, direct, _HALF_DIRECT[dtype]):
            yield direct


def _pays(problem: Problem, config: Tile, most: int) -> bool:
    """Half a warp needs few registers; other teams take what there are."""
    return config.LANES_N > 2 or work.registers(problem, config) <= most


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
    """Without the other triangle where lines are long, and moved 16 bytes at a time."""
    every: list[Lanes | Tile] = [*_lanes(problem), *_tiles(problem)]
    for rough in every:
        triangle = replace(rough, TRIANGLE=True)
        if problem.N * problem.itemsize >= _LONG and piece(problem, triangle) * problem.itemsize in (0, 16):
            yield triangle
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


# rows up to which so many warps factor a matrix (H200, float64)
_WARPS = ((80, 4), (96, 3), (144, 8), (1 << 30, 12))


def _blocks(problem: Problem, device: Device) -> Iterator[Block]:
    """More warps per matrix where a multiprocessor has room for few of them."""
    if problem.dtype == "float64" and problem.want == "factor" and not spec.is_ragged(problem):
        yield Block(next(warps for most, warps in _WARPS if most >= problem.N))
    alone = 2 * work.shared_bytes(problem, Block()) > device.shared_per_multiprocessor
    yield from (Block(warps) for warps in ((8, 4) if alone else (4, 8)))
