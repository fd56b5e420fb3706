"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...codegen.geometry import Device
from ...plan.problem import Problem
from .. import configs
from . import space, space_cpu, work
from .space import Config, Ring, Threads


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    yield from _ring(problem)
    yield from _threads(problem)


def _ring(problem: Problem) -> Iterator[Ring]:
    """Chunks of 12 to 16 KB, eight warps or more, C in registers where it fits."""
    row_bytes = max(problem.M, problem.N) * problem.itemsize
    rows = next((rows for rows in (256, 128, 64, 32) if rows * row_bytes <= 16 << 10), 16)
    out = 2 if problem.pitch_w == problem.N else 0
    for source in ("registers", "shared"):
        for wk, wn, groups in ((1, 1, 8), (2, 1, 4), (2, 2, 3), (1, 4, 2), (1, 2, 4), (2, 4, 1), (1, 8, 1), (1, 4, 1)):
            for factor in (1, 2, 4):
                one = Ring(wk, wn, groups, max(16 * wk, rows) * factor, 2, out, source)
                shape = work.ring_shape(problem, one)
                room = 220 * 1024 - shape.small_bytes - groups * out * shape.out_bytes
                for stages in (4, 3, 2):
                    if stages * groups * shape.stage_bytes <= room:
                        yield replace(one, STAGES=stages)


def _threads(problem: Problem) -> Iterator[Threads]:
    for per_row in (1, 2, 4, 8, 16, 32):
        for source in ("shared", "cache"):
            for per_sm in (4, 2, 1):
                yield Threads(min(per_row, problem.N), True, 1, source, 256, per_sm)
