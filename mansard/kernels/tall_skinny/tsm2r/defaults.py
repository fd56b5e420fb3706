"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space, work
from .space import Config, Steps, Tensor
from .space_group import NARROWEST, Group


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works; on a CPU there are none."""
    if device.backend == "cpu":
        return
    if problem.layout_a != "any":
        yield from _group(problem, device)
        yield from _tensor(problem, device)
    yield from _steps(problem, device)


def _group(problem: Problem, device: Device) -> Iterator[Group]:
    """Panels of 256 rows, or of as many as registers hold; chunks of 64 columns, as many as shared memory holds. To 16
    columns one instruction has room for both halves of B; rows are short copies, which take four warps to issue."""
    if work.real_bytes(problem) != 4 or work.width(problem) < NARROWEST:
        return
    col = problem.layout_a == "col"
    rows = problem.M * (2 if problem.is_complex and col else 1)
    wide = work.width(problem)
    teams = ((2, 2), (2, 1), (1, 1)) if wide <= 32 else ((2, 1), (1, 1))
    if col and 16 < wide <= 32:
        teams = ((4, 1), *teams)
    if wide <= 16 and not col:
        yield Group(2, 1, 128, 1, 3, 2, JOINED=True)
    for (groups, tiles), stages in product(teams, (6, 5, 4, 3, 2)):
        one = Group(groups, tiles, 64, 1, stages, 2 if col or wide <= 16 else 4, JOINED=wide <= 16)
        if 64 * groups * tiles < 2 * rows and work.shared_bytes(problem, one) <= device.shared_per_block:
            yield one


_BESIDE = 3 << 10  # bytes of a block's shared memory for barriers and alignment, beside chunks


def _tensor(problem: Problem, device: Device) -> Iterator[Tensor]:
    """Eight warps, 128 to 256 rows, copies of 512 bytes and more, as many chunks as shared memory holds."""
    real, wide = work.real_bytes(problem), work.width(problem)
    unit = "tf32x3" if real == 4 and wide > 16 else "float64"
    rows = problem.M * (2 if problem.is_complex and problem.layout_a == "col" else 1)
    tiles = (4, 2, 1) if problem.layout_a == "col" else (2, 1)  # column-major, four tiles are read without collisions
    teams = ((8, 1, 1), (4, 1, 2), (2, 1, 4), (1, 1, 8), *(((4, 2, 1), (2, 2, 2), (2, 4, 1)) if wide > 32 else ()))
    shapes = [(*team, t) for t in tiles for team in teams]
    wanted = min(128 if problem.layout_a == "row" else 256, max(16, rows))
    shapes.sort(key=lambda shape: abs(shape[0] * shape[3] * 16 - wanted))
    lines = (512, 256, 128) if problem.layout_a == "row" else (256, 512, 128)  # bytes of a row of a chunk
    for load in ("bulk", "registers"):
        for line, (wm, wn, wk, t) in product(lines, shapes):
            feeders = 4 if problem.layout_a == "row" else 1
            one = Tensor(wm, wn, wk, t, line // real, load, 2, feeders, UNIT=unit if load == "bulk" else "float64")
            shape = work.tensor_shape(problem, one)
            for stages in (6, 5, 4, 3, 2) if load == "bulk" else (2,):
                if stages * shape.stage_bytes + shape.small_bytes <= device.shared_per_block - _BESIDE:
                    yield replace(one, STAGES=stages)


def _steps(problem: Problem, device: Device) -> Iterator[Steps]:
    """Column-major, a few results and a few numbers in flight for each of many threads."""
    panels = -(-problem.M // 128)
    split = max(1, min(problem.K // 512, 4 * device.multiprocessors // panels))
    for (t2, t3), per_sm in product(((8, 8), (4, 4), (2, 2), (1, 1)), (4, 2, 1)):
        yield Steps("prefetch", 128, min(t2, problem.N), t3, split, per_sm)
