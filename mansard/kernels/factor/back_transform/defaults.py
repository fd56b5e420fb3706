"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from . import space
from .space import Block, Config, Lanes, Warps


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """A lane per row, two where a row has more numbers than a thread has registers for, a lane of several warps beyond;
    then whatever fits."""
    rough = (*measured.configs(space, problem, device), *rules(problem), *space.rough_candidates(problem))
    found = (space.resident(problem, config, device) for config in rough)
    yield from (config for config in found if config is not None)


def rules(problem: Problem) -> Iterator[Config]:
    """Configurations before the number of blocks per multiprocessor is settled."""
    words = 2 if problem.is_complex else 1
    if problem.N <= 32:
        rows = problem.N * words
        yield Lanes(8 if rows <= 12 else 16 if rows <= 16 else 32)
    row = problem.N * (problem.itemsize // words)  # bytes of a row's component, of which a lane has registers for 512
    if row > 1024:
        yield Warps(configs.up(row, 512) if row <= 3072 else 12)  # memory of a block leaves room for one: more warps
        return
    split = 2 if row > 512 else 1
    lanes = problem.N * words * split
    parts = configs.up(lanes, 128)  # blocks of up to four warps: larger ones wait longer at their barriers
    yield Block(split, configs.up(lanes, 32 * parts))
