"""Rules of thumb: warps per block."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space
from .space import Columns, Config, Matrices, Update

_ROWS = 16  # rows of a matrix per warp, at the least: each is a dependent sum
_MOST = 8  # warps of a block: larger blocks wait for each other at the end of a sum


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """A warp for each column, or a few rows of a matrix; blocks of 8 warps for entries."""
    kind = space.KINDS.get(problem.want)
    if kind is Update:
        yield Update()
    elif kind is Columns:
        yield Columns(configs.power_below(min(_MOST, problem.NRHS)))
    elif kind is Matrices:
        yield Matrices(configs.power_below(min(_MOST, problem.N // _ROWS)))
