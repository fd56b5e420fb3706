"""Rules of thumb: which kernel does which class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from ....codegen.geometry import Device
from ....machine import occupancy
from ....plan.problem import Problem
from ...common import configs, measured
from ...common.configs import up
from . import space, space_cpu, work
from .space import Config, Gpu, Lanes, Sort, Stream, Tiles, Vectors, Whole

# Lanes along rows and columns, by the widest product of a class: 2 to 4 by 2 to 8 sums each, which registers hold.
_TEAMS = {32: (8, 4), 24: (8, 4), 16: (4, 4), 12: (4, 4), 8: (4, 2), 4: (2, 2)}
_SLOTS = {128: 4, 64: 1}  # blocks per product, by width: panels of 64 rows and columns cover it
_WARP_SUMS = {"float64": 32, "complex128": 16}  # rows and columns of C per warp: 64 registers of sums on tensor cores
_WIDEST_WHOLE = 64  # rows and columns of products that shared memory holds twice, so that the next one is on its way
_BLOCK_WARPS = 4  # warps of a block, one for each scheduler of a multiprocessor
_EACH, _EACH_VECTOR = 3, 4  # products of a team: they hide the latency of loading the next one
_MOST_BLOCKS = 3  # blocks of such teams per multiprocessor: while one loads, and one stores, one computes
_WAVES = 4  # turns of all blocks from which the last, half-empty one hardly counts; with fewer, blocks stay
_Kind = TypeVar("_Kind", Lanes, Tiles, Vectors, Stream)


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """On CPUs the kernel that does all products; on GPUs those of the classes, the largest first, then the sort's."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    yield from (of_class(problem, index, device) for index in range(work.CLASSES))
    yield from sorts(merged_from(problem))


def sorts(start: int) -> tuple[Sort, Sort]:
    """The two launches of the sort."""
    return Sort(FROM=start), Sort(PLACE=True, FROM=start)


def merged_from(problem: Problem) -> int:
    """Products of more than this, up to 32, are one class: tensor cores compute what exists, and one launch ends once.
    Smaller ones in there gain nothing, and lose where there are many."""
    return 16 if problem.dtype in space.TENSOR else 24


def of_class(problem: Problem, index: int, device: Device, count: int = 0) -> Gpu:
    """The kernel for class `index`, which has so many products; 0: only the device knows."""
    config = _of_class(problem, index, device)
    if isinstance(config, Whole | Vectors):
        at_once = config.EACH * work.teams(config) * config.BLOCKS_PER_SM * device.multiprocessors
        return config if count >= _WAVES * at_once else replace(config, EACH=0)
    return config


def _of_class(problem: Problem, index: int, device: Device) -> Gpu:
    if index >= len(space.WIDTHS):
        return _vectors(problem, index, device)
    width = space.WIDTHS[index]
    for whole in _whole(problem, index, device):  # tensor cores take fewer instructions than lanes
        if space.illegal(problem, whole, device) is None:
            return whole
    if width is not None and width <= 32:
        team = _TEAMS[width]
        heavy = width * width * problem.itemsize > 8192
        return _resident(problem, Lanes(index, *team, 2 if heavy else 4), device)
    return _tiles(problem, index, device)


def _whole(problem: Problem, index: int, device: Device) -> Iterator[Whole]:
    """Teams of warps with whole products in shared memory, of widths that are multiples of a fragment's 16 rows."""
    width = space.WIDTHS[index] or 0
    found = measured.configs(space, problem, device, width=width)
    teams = [config for config in found if isinstance(config, Whole)]
    fits = problem.dtype in _WARP_SUMS and 0 < width <= _WIDEST_WHOLE and width % 16 == 0
    if fits and not measured.is_swept("ragged_gemm", device):
        warps = up(width, _WARP_SUMS[problem.dtype])
        per_block = max(1, _BLOCK_WARPS // warps**2)
        teams = [Whole(index, warps, warps, per_block, EACH=_EACH, BLOCKS_PER_SM=n) for n in range(_MOST_BLOCKS, 0, -1)]
    yield from (_roomy(replace(config, CLASS=index), device) for config in teams)


def _tiles(problem: Problem, index: int, device: Device) -> Gpu:
    width = space.WIDTHS[index]
    slots = 16 if width is None else _SLOTS[width]
    if problem.dtype not in space.TENSOR:
        return _resident(problem, Tiles(index, slots), device)
    if width == 128 and problem.dtype == "float64":  # one block per product reads A and B once, four read them twice
        large = Tiles(index, 1, 128, 128, THREADS=256, UNIT="tensor")
        if space.illegal(problem, large, device) is None:
            return large
    shape = (8, 128, 4) if problem.is_complex else (16, 128, 3)
    return _resident(problem, Tiles(index, slots, 64, 64, *shape, "tensor"), device)


def _vectors(problem: Problem, index: int, device: Device) -> Gpu:
    """Small ones through shared memory; of others 128 bytes per lane are under way."""
    width = work.widest(index)
    if 0 < width <= 32:
        lanes = max(4, min(width, width * width * problem.itemsize // 128))  # four kilobytes per warp
        rough = Vectors(index, lanes, 2 if width * width * problem.itemsize > 8192 else 4, _EACH_VECTOR)
        return _resident(problem, rough, device)
    rows = 4 if problem.itemsize == 16 else 8
    slots = 16 if index == len(space.WIDTHS) else 4 if index == space.ROW else 1
    return _resident(problem, Stream(index, slots, 4, rows, 128 // (rows * problem.itemsize)), device)


def _roomy(config: Whole, device: Device) -> Whole:
    """The same with as much shared memory as its blocks can have."""
    most = min(device.shared_per_block, device.shared_per_multiprocessor // config.BLOCKS_PER_SM - 1024)
    return replace(config, ROOM=most // 1024)


def _resident(problem: Problem, config: _Kind, device: Device) -> _Kind:
    """The same with as many blocks per multiprocessor as fit."""
    threads = up(work.threads(problem, config), 128) * 128
    registers = configs.needed_registers(work, problem, config, device)
    shared = work.shared_bytes(problem, config)
    fit = occupancy.blocks_per_multiprocessor(device, threads, registers, shared)
    return replace(config, BLOCKS_PER_SM=max(1, min(16, fit)))
