"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ...codegen.geometry import Device
from ...plan.problem import Problem
from .. import configs
from . import space, space_cpu, work
from .shapes import shape
from .space import Block, Config, Gpu, Lanes

TRUSTED = True  # what they rank by is made for these kernels, more than the model


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess on: by what a full multiprocessor has to issue and to wait for per matrix."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    yield from _measured(problem, device)
    found = [
        config
        for rough in space.rough_candidates(problem)
        if rough.STAGES == 1 and (config := space.resident(problem, rough, device)) is not None
    ]
    yield from sorted(found, key=lambda config: cost(problem, config))


def _measured(problem: Problem, device: Device) -> Iterator[Gpu]:
    """What won on an H200: square matrices in double precision, R and reflectors."""
    if problem.dtype != "float64" or problem.want not in ("raw", "r") or problem.M != problem.N:
        return
    rough = next((config for most, config in _SQUARE if most >= problem.N), None)
    config = None if rough is None else space.resident(problem, rough, device)
    if config is not None:
        yield config


# rows up to which
_SQUARE: tuple[tuple[int, Gpu | None], ...] = (
    (4, None), (6, Lanes(2, 1)), (7, None), (8, Lanes(1, 4)), (16, None), (20, Lanes(1, 8)), (24, Lanes(1, 8, 2)),
    (32, Lanes(2, 8, 1)), (40, Lanes(4, 8, 1)), (48, Lanes(2, 16, 1)), (64, Block(4, 16, 2, 1, 2)),
    (96, Block(4, 32, 1, 1, 4)), (128, Block(8, 32, 1, 1, 8)),
)  # fmt: skip


def cost(problem: Problem, c: Gpu) -> float:
    """Clocks per matrix of a full multiprocessor."""
    s = shape(problem, c)
    busy = [
        work.issued(problem, c) / s.group / 4,
        work.exchanged(problem, c) / s.group,
        work.waited(problem, c) / (c.BLOCKS_PER_SM * s.units * s.group),
        work.work(problem.replace(BATCH=1)).bytes / _BYTES_PER_CLOCK,
    ]
    few = max(1.0, _WARPS / (c.BLOCKS_PER_SM * c.WARPS))
    long = max(1.0, 0.9 + 0.1 * work.code_length(problem, c) / _CODE)
    return (max(busy) + 0.25 * sum(busy)) * few * long


# Bytes per clock of a multiprocessor, where all of them copy; warps that it needs to be busy; instructions that are at
# hand.
_BYTES_PER_CLOCK, _WARPS, _CODE = 16, 10, 2500
