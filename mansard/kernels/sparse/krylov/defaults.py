"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space, space_cpu
from .space import Cg, Config, Minres


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Half of the threads that a multiprocessor has room for, with two packs of each vector under way: as many bytes as
    memory needs at once, and half of the sums to add. On CPUs parts that stay in the first cache."""
    if device.backend == "cpu":
        yield space_cpu.kind_for(problem)()
        return
    kind = Minres if problem.solver == "minres" else Cg
    yield kind(256, 4, 2)
    yield kind(128, 1, 1)
