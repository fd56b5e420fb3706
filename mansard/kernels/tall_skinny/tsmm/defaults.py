"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ....codegen.geometry import Device
from ....plan.problem import REAL, Problem
from ...common import configs
from . import space, space_cpu, work
from .space import Config, Fragment, Ring, Threads


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
    yield from _ring(problem)
    yield from _threads(problem)
    yield Fragment()  # where it was asked for by name


def _ring(problem: Problem) -> Iterator[Ring]:
    """Chunks of 8 KB and more, eight warps or more, C in registers where it fits."""
    row_bytes = max(problem.M, problem.N) * problem.itemsize
    outs = (2, 0) if problem.pitch_w == problem.N else (0,)
    wide = REAL[problem.dtype] == "float32" and problem.M * problem.itemsize > 64
    units = [("fma", "registers"), ("float64", "registers")]
    units += ([("tf32x3", "shared")] if wide else []) + [("float64", "shared")]
    teams = ((2, 1, 4), (2, 2, 3), (1, 2, 4), (1, 4, 2), (2, 4, 1), (1, 8, 1), (1, 4, 1))
    for (unit, source), (wk, wn, groups), tall in product(units, teams, (32, 16)):
        least = wk * tall
        rows = next((n for n in (1024, 512, 256, 128, 64, 32) if n * row_bytes <= 8 << 10), 16)
        rows = max(least, rows // least * least)
        for out in outs:
            passes = rows // least if out else 1
            one = Ring(wk, wn, groups, passes * least, 2, out, source, passes, unit)
            shape = work.ring_shape(problem, one)
            room = 220 * 1024 - shape.small_bytes - groups * out * shape.out_bytes
            for stages in (4, 3, 2):
                if stages * groups * shape.stage_bytes <= room and work.registers(problem, one) <= 200:
                    yield replace(one, STAGES=stages)


def _threads(problem: Problem) -> Iterator[Threads]:
    for per_row in (1, 2, 4, 8, 16, 32):
        for source in ("shared", "cache"):
            for per_sm in (4, 2, 1):
                yield Threads(min(per_row, problem.N), True, 1, source, 256, per_sm)
