"""Rules of thumb: which kernel does which class."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ...codegen.geometry import Device
from ...model import occupancy
from ...plan.problem import Problem
from ..configs import up
from . import space, space_cpu, work
from .space import Gpu, Lanes, Sort, Tiles, Whole
from .space_cpu import Simd

_TEAMS = {32: (8, 4), 24: (8, 4), 16: (4, 4), 12: (4, 4), 8: (4, 2), 4: (2, 2)}  # lanes, by width
_SLOTS = {128: 4, 64: 1}
_WHOLE = {32: 3, 24: 3, 16: 4}  # blocks of four teams, by width
_Kind = TypeVar("_Kind", Lanes, Tiles)


def default(problem: Problem, device: Device) -> Simd:
    """Of CPUs, where one kernel does all."""
    return space_cpu.default(problem, device)


def sorts(problem: Problem, device: Device) -> tuple[Sort, Sort]:
    """The two launches of the sort."""
    return Sort(), Sort(PLACE=True)


def of_class(problem: Problem, index: int, device: Device) -> Gpu:
    """The kernel for class `index`."""
    width = space.WIDTHS[index]
    if problem.dtype == "float64" and width in _WHOLE:  # 1 to 5 % faster than lanes (H200)
        whole = _roomy(Whole(index, 1, 1, 4, BLOCKS_PER_SM=_WHOLE[width]), device)
        if space.illegal(problem, whole, device) is None:
            return whole
    if width is not None and width <= 32:
        team = _TEAMS[width]
        heavy = width * width * problem.itemsize > 8192
        return _resident(problem, Lanes(index, *team, 2 if heavy else 4), device)
    slots = 16 if width is None else _SLOTS[width]
    if problem.dtype == "float64":
        return _tensor(problem, index, slots, device)
    wide = problem.dtype == "complex128"
    return _resident(problem, Tiles(index, slots, THREADS=256 if wide else 128, STAGES=2 if wide else 3), device)


def _tensor(problem: Problem, index: int, slots: int, device: Device) -> Gpu:
    """The first that the device has room for: whole matrices to 64, one tile per product to 128, small tiles."""
    choices: list[Gpu] = []
    if space.WIDTHS[index] == 64:
        choices = [_roomy(Whole(index, BLOCKS_PER_SM=blocks), device) for blocks in (3, 2, 1)]
    if space.WIDTHS[index] == 128:  # one block per product: four take 1.4 times as long (H200)
        choices = [Tiles(index, 1, 128, 128, THREADS=256, STAGES=3, UNIT="tensor")]
    legal = (choice for choice in choices if space.illegal(problem, choice, device) is None)
    return next(legal, None) or _resident(problem, Tiles(index, slots, UNIT="tensor"), device)


def _roomy(config: Whole, device: Device) -> Whole:
    """The same with as much shared memory as its blocks can have."""
    most = min(device.shared_per_block, device.shared_per_multiprocessor // config.BLOCKS_PER_SM - 1024)
    return replace(config, ROOM=most // 1024)


def _resident(problem: Problem, config: _Kind, device: Device) -> _Kind:
    """The same with as many blocks per multiprocessor as fit."""
    threads = up(work.threads(problem, config), 128) * 128
    registers, shared = work.registers(problem, config), work.shared_bytes(problem, config)
    fit = occupancy.blocks_per_multiprocessor(device, threads, registers, shared)
    return replace(config, BLOCKS_PER_SM=max(1, min(16, fit)))
