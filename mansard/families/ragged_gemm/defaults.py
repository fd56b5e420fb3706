"""Rules of thumb: which kernel does which class."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ...codegen.geometry import Device
from ...model import occupancy
from ...plan.problem import Problem
from ..configs import up
from . import space, space_cpu, work
from .space import Gpu, Lanes, Sort, Tiles
from .space_cpu import Simd

_TEAMS = {32: (8, 4), 24: (8, 4), 16: (4, 4), 12: (4, 4), 8: (4, 2), 4: (2, 2)}  # lanes, by width
_SLOTS = {128: 4, 64: 1}
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
    if width is not None and width <= 32:
        team = _TEAMS[width]
        heavy = width * width * problem.itemsize > 8192
        return _resident(problem, Lanes(index, *team, 2 if heavy else 4), device)
    slots = 16 if width is None else _SLOTS[width]
    if problem.dtype == "float64" and width == 128:  # one block per product: 1460 us where four took 1820 (H200)
        return _resident(problem, Tiles(index, 1, 128, 128, THREADS=256, UNIT="tensor"), device)
    if problem.dtype == "float64":
        return _resident(problem, Tiles(index, slots, UNIT="tensor"), device)
    wide = problem.dtype == "complex128"
    return _resident(problem, Tiles(index, slots, THREADS=256 if wide else 128, STAGES=2 if wide else 3), device)


def _resident(problem: Problem, config: _Kind, device: Device) -> _Kind:
    """The same with as many blocks per multiprocessor as fit."""
    threads = up(work.threads(problem, config), 128) * 128
    registers, shared = work.registers(problem, config), work.shared_bytes(problem, config)
    fit = occupancy.blocks_per_multiprocessor(device, threads, registers, shared)
    return replace(config, BLOCKS_PER_SM=max(1, min(16, fit)))
