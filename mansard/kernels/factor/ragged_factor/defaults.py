"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space, space_cpu
from .space import ON_GPUS, Config


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """The one rule of CPUs. GPUs copy: kernels of the families themselves factor classes of sizes there."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
    elif problem.method in ON_GPUS:
        yield ON_GPUS[problem.method]()
