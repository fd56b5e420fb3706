"""The configurations of `ragged_factor`: the copies of GPUs, what is legal, and what is worth considering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Range
from ...common import configs
from ...common.configs import OnGpu
from . import space_cpu
from .space_cpu import Rows


@dataclass(frozen=True)
class Copy(OnGpu):
    """Gather matrices into a padded stack, or scatter results: a warp per run of entries; any dtype and size."""

    VARIANT: ClassVar[str] = "copy"
    WARPS: Annotated[int, Range(1, 32)] = 4
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Unpad(OnGpu):
    """Take values and vectors of the padding out of a stack: a block per matrix; any dtype and size."""

    VARIANT: ClassVar[str] = "unpad"
    WARPS: Annotated[int, Range(1, 32)] = 4
    BLOCKS_PER_SM: int = 8


Config: TypeAlias = Rows | Copy | Unpad
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Rows, Copy, Unpad)}
ON_GPUS: dict[str, type[Copy | Unpad]] = {"copy": Copy, "unpad": Unpad}  # methods

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "ragged_factor", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if elsewhere := configs.elsewhere(config, device):
        return elsewhere
    if not isinstance(config, ON_GPUS.get(problem.method, Rows)):
        return f"method={problem.method!r} is not of {config.VARIANT}"
    return None


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Fewer and more rows at a time; on GPUs the one configuration of a copy."""
    if problem.method in ON_GPUS:
        yield from () if device.backend == "cpu" else (ON_GPUS[problem.method](),)
    elif device.backend == "cpu":
        first = space_cpu.default(problem, device)
        yield from (replace(first, ROWS=rows) for rows in (1, 2, 4, 8))
