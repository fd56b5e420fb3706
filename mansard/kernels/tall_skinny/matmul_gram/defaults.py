"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space
from .space import Ring


def default(problem: Problem, device: Device, variant: str | None = None) -> Ring | None:
    """The first legal rule."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Ring]:
    """Chunks of 8 KB and more in four or two teams, fewer stages where there is no room."""
    row_bytes = max(problem.M, problem.N) * problem.itemsize
    for groups, stages in ((4, 4), (4, 3), (4, 2), (2, 2), (1, 2)):
        warps = 8 // groups
        for tall in (32, 16):
            least = warps * tall
            passes = max(1, min(16, (8 << 10) // (row_bytes * least)))
            yield Ring(warps, groups, passes * least, stages, 2, passes)
            yield Ring(warps, groups, least, stages, 1, 1)
