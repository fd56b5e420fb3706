"""Rules of thumb: lanes per matrix and per warp."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space, spec
from .space import Check, Columns, Config, Determinants, Residuals

_LEAST = 4  # lanes of a team: fewer read no sector of 32 bytes at once


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """A lane for each right-hand side and, of a team, each row, up to a warp; fewer warps where memory is short."""
    sides = power_above(min(32, problem.NRHS))
    for warps in (4, 2, 1):
        if problem.want == "check":
            yield Check()
        elif problem.want in spec.NUMBERS:
            yield Determinants(warps)
        elif problem.want == "residuals":
            yield Residuals(sides, warps)
        else:
            yield Columns(max(_LEAST, sides, power_above(min(32, problem.N))), warps)


def power_above(count: int) -> int:
    """The smallest power of two that is not smaller than `count`."""
    return 1 << (max(1, count) - 1).bit_length()
