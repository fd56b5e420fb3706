"""Rules of thumb: how many threads."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space
from .space import Block, Config, Pivots


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Four lanes for each column of two matrices; more columns need fewer threads, for the sake of their registers."""
    if problem.sketched:
        yield Pivots(space.threads_of_pivots(problem.N))
        return
    if problem.N <= 64:
        yield Block(max(64, -(-problem.N // 4) * 32))
    yield Block(256)
