"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from ...common.configs import up
from . import space, space_cpu
from .space import Config, Tiles

_THREADS = 128  # threads of a block of several matrices: four warps, one for each quarter of a multiprocessor
_GROUP_BYTES = 24 << 10  # bytes of a group and its results: several blocks fit, and some copy while others compute
_WHOLE_BYTES = 48 << 10  # bytes of a matrix that is copied as a whole: of larger ones the first panels come sooner
_PART = 64  # tiles of a part of a matrix, where several blocks share one: two warps have work
_MOST_THREADS = 512  # threads of a block: so many of 128 registers fill the register file of a multiprocessor
_MOST_SUMS = 128  # 32-bit registers of sums per thread, half of what there is


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if problem.N < 1 or problem.K < 1:
        return
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    yield from swept(problem, device)
    for rough in _tiles(problem, device):
        config = space.resident(problem, rough, device)
        if config is not None:
            yield config


def swept(problem: Problem, device: Device) -> Iterator[Config]:
    """Legal configurations that records of the device name for sizes like these."""
    if device.backend == "cpu":
        return
    for record in measured.configs(space, problem, device):
        config = space.resident(problem, record, device)
        if config is not None and space.illegal(problem, config, device) is None:
            yield config


def _tiles(problem: Problem, device: Device) -> Iterator[Tiles]:
    """Tiles by what they waste and how often they read; whole matrices in groups, large ones by panels; several blocks
    for a matrix where matrices are few, or have more tiles than a block has threads."""
    factors = 2 if problem.two else 1
    operand = factors * problem.N * problem.K * problem.itemsize
    result = problem.N * problem.N * problem.itemsize
    for tile in tile_sizes(problem):
        sets = up(problem.N, tile)
        tiles = sets * (sets + 1) // 2
        group = max(1, min(_THREADS // tiles, _GROUP_BYTES // max(operand, result)))
        depths = [depth for depth in (32, 16, 8, 4) if depth < problem.K]
        parts = min(up(tiles, _PART), up(device.multiprocessors, problem.BATCH))
        parts = max(parts if tiles >= 2 * _PART else 1, up(tiles, _MOST_THREADS))
        if parts > 1:
            yield from (Tiles(tile, 1, parts, depth, 2, "direct") for depth in depths)
            yield Tiles(tile, 1, parts, OUT="direct")
            continue
        if operand <= _WHOLE_BYTES:
            yield Tiles(tile, group)
        for out in ("back", "direct"):
            yield from (Tiles(tile, 1, 1, depth, 2, out) for depth in depths)
            yield Tiles(tile, 1, OUT=out)


def tile_sizes(problem: Problem) -> list[int]:
    """Rows of a set, the most promising first: few products for nothing, few reads per product."""
    words = problem.itemsize // 4
    found = []
    for tile in range(1, min(8, problem.N) + 1):
        sets = up(problem.N, tile)
        computed = sets * (sets + 1) / 2 * tile * tile
        if words * tile * tile > _MOST_SUMS :
            continue
        found.append((computed / (problem.N * (problem.N + 1) / 2) * (1 + 1.5 / tile), tile))
    return [tile for _, tile in sorted(found)]
