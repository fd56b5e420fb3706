"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ....codegen.geometry import Device
from ....plan.problem import REAL, Problem
from ...common import configs, measured
from . import space, space_columns, space_cpu, work
from .space import Config, Fragment, Ring, Threads
from .space_columns import Columns


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    if work.is_short(problem):
        yield Fragment()
    yield from _ring(problem, device)
    yield from _columns(problem, device)
    yield from _threads(problem)
    yield Fragment()  # where it was asked for by name


_WARPS = 8  # warps of a block: two for each scheduler of a multiprocessor
_CHUNK_BYTES = 8 << 10  # bytes per chunk: a few dozen of them in flight cover latency times bandwidth of a device
_REGISTERS = 200  # registers per thread at the most, which leave those of ten warps in a multiprocessor
_ROOM_BESIDE = 7 << 10  # bytes of a block's shared memory for barriers and alignment


def _ring(problem: Problem, device: Device) -> Iterator[Ring]:
    """Chunks of 8 KB and more, C in registers where it fits."""
    row_bytes = max(problem.M, problem.N) * problem.itemsize
    outs = (2, 0) if problem.pitch_w == problem.N else (0,)
    wide = REAL[problem.dtype] == "float32" and problem.M * problem.itemsize > 64
    units = [("fma", "registers"), ("float64", "registers")]
    units += ([("tf32x3", "shared")] if wide else []) + [("float64", "shared")]
    for (unit, source), (wk, wn, groups), tall in product(units, _teams(problem, device), (32, 16)):
        least = wk * tall
        rows = next((n for n in (1024, 512, 256, 128, 64, 32) if n * row_bytes <= _CHUNK_BYTES), 16)
        rows = max(least, rows // least * least)
        for out in outs:
            passes = rows // least if out else 1
            one = Ring(wk, wn, groups, passes * least, 2, out, source, passes, unit)
            shape = work.ring_shape(problem, one)
            room = device.shared_per_block - _ROOM_BESIDE - shape.small_bytes - groups * out * shape.out_bytes
            for stages in (4, 3, 2):
                if stages * groups * shape.stage_bytes <= room and work.registers(problem, one) <= _REGISTERS:
                    yield replace(one, STAGES=stages)


def _teams(problem: Problem, device: Device) -> list[tuple[int, int, int]]:
    """Warps along the rows of a chunk and along the columns of W, and teams of a block. Teams that sweeps found the
    best; elsewhere eight warps, of which more share the columns as the result gets too wide for one."""
    found = [config for config in measured.configs(space, problem, device) if isinstance(config, Ring)]
    if measured.is_swept("tsmm", device):
        return [(config.WARPS_K, config.WARPS_N, config.GROUPS) for config in found]
    return [(wk, wn, _WARPS // (wk * wn)) for wk, wn in ((2, 1), (1, 2), (1, 4), (2, 4), (1, 8))]


def swept(problem: Problem, device: Device) -> Iterator[Columns]:
    """Configurations that sweeps found the best for column-major A of many rows."""
    if problem.layout_a == "col" and not work.is_short(problem):
        for one in measured.configs(space, problem, device):
            if isinstance(one, Columns) and space.illegal(problem, one, device) is None:
                yield one


def _columns(problem: Problem, device: Device) -> Iterator[Columns]:
    """Columns that start anywhere: what sweeps found the best, then rules of thumb."""
    if problem.layout_a == "col":
        yield from swept(problem, device)
        yield from space_columns.ranked(problem)


def _threads(problem: Problem) -> Iterator[Threads]:
    for per_row in (1, 2, 4, 8, 16, 32):
        for source in ("shared", "cache"):
            for per_sm in (4, 2, 1):
                yield Threads(min(per_row, problem.N), True, 1, source, 256, per_sm)
