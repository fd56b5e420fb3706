"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from . import space, space_cpu, spec, work
from .shapes import piece
from .space import Block, Config, Lanes, Tile

TRUSTED = True  # rules come before the model: latencies decide, which it does not see


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
        found = measured.configs(space, problem, device)
        rough = (*found, *_factors(problem), *_halves(problem), *_blocks(problem, device))
    for config in rough:
        fitting = space.resident(problem, config, device)
        if fitting is not None:
            least = work.registers(problem, fitting) + _UNROLLED if isinstance(fitting, Lanes) else 0
            yield configs.with_spare_registers(work, problem, fitting, device, least)


_UNROLLED = 24  # registers of a lane for columns of several unrolled steps at once, beyond what the estimate counts


# Bytes of a matrix from which it goes from global memory to registers and back: images of larger ones in shared memory
# (100 to 228 KB per multiprocessor) would limit the warps that fit, and not their registers.
_LARGE_IMAGE = 4096
_TRIANGLE_FROM = 24  # rows of a multiple of eight from which the image of a triangle leaves out enough
_HALF_WARP = 160  # registers per thread: three warps share a quarter of a multiprocessor (170), if estimates are right
_MOST_ROWS = 64  # rows that two warps hold in registers


def _factors(problem: Problem) -> Iterator[Tile]:
    """Factors from registers to registers, but for multiples of eight: without images their rows, in one set of a
    cache, would wait for each other. Two warps where the registers of one do not suffice."""
    order, dtype = int(problem.N), problem.dtype
    if problem.want != "factor" or order > _MOST_ROWS:
        return
    paired, begun = dtype == "complex128", order * order * problem.itemsize > _LARGE_IMAGE
    even, small = order % 8 == 0 and order >= _TRIANGLE_FROM, paired and begun and order < _TRIANGLE_FROM
    for rough in (Tile(8, 2), Tile(8, 4), Tile(8, 8, WARPS=2)):
        single = rough.LANES_N == 2 and dtype in ("float32", "complex64")
        triangle = replace(rough, TRIANGLE=True, WARPS=4 if single else rough.WARPS)
        wanted = even or small or (paired and begun and rough.LANES_N == 8)
        if wanted and _fits(problem, triangle):
            yield triangle
        direct = replace(rough, DIRECT=True)
        if (paired or order % 8) and begun and _fits(problem, direct):
            yield direct


def _fits(problem: Problem, config: Tile) -> bool:
    """Half a warp per matrix takes half the instructions of a whole one, which pays as long as three warps fit; other
    teams take the registers there are."""
    return config.LANES_N > 2 or work.registers(problem, config) <= _HALF_WARP


def _ragged(problem: Problem) -> Iterator[Tile]:
    """Half a warp where a matrix is short of work for a whole one; above what registers hold, blocks."""
    order, most = int(problem.N), 48 if problem.dtype == "complex128" else 64
    if order <= 32:
        yield Tile(8, 2, DIRECT=True)
    if order <= most:
        yield Tile(8, 4, DIRECT=True)


_LONG = 96  # bytes of a line from which memory moves less if half of it stays away
# Entries of 8 bytes that a lane holds of a matrix at the most, by the lanes of a team: unrolled steps keep as many
# products of columns in registers again, more of them in solutions and in complex numbers. A lane alone reads one
# matrix after the other, less than a sector of 32 bytes at a time, and only pays where right-hand sides are few.
_ROWS = {"factor": {2: 6, 4: 24, 8: 44}, "complex factor": {2: 6, 4: 24, 8: 23}, "solve": {1: 36, 2: 26, 4: 18, 8: 18}}
_HALF, _WHOLE = 24, 72  # entries of 8 bytes per lane of half a warp (four warps fit into a quarter), and of a whole one


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


def _blocks(problem: Problem, device: Device) -> Iterator[Block]:
    """More warps per matrix where a multiprocessor has room for few of them."""
    alone = 2 * work.shared_bytes(problem, Block()) > device.shared_per_multiprocessor
    yield from (Block(warps) for warps in ((8, 4) if alone else (4, 8)))
