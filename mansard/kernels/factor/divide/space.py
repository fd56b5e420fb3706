"""The configurations of `divide`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from ...common.configs import OnGpu
from . import spec, work


@dataclass(frozen=True)
class Bisect(OnGpu):
    """Values, or shifts, by multisection: a block per matrix, a few lanes per value."""

    VARIANT: ClassVar[str] = "bisect"
    LANES: int = 4  # per value
    BLOCKS_PER_SM: int = 1  # at least


@dataclass(frozen=True)
class Merge(OnGpu):
    """Values and vectors by divide and conquer: a block per matrix, four lanes per row."""

    VARIANT: ClassVar[str] = "merge"
    WARPS: int = 4  # of the block: one for eight rows
    BLOCKS_PER_SM: int = 1


Config: TypeAlias = Bisect | Merge
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Bisect, Merge)}
to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "divide", VARIANTS)


def illegal(problem: Problem, c: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if reason := configs.elsewhere(c, device) or spec.refusal(problem):
        return reason
    if isinstance(c, Bisect):
        if problem.want == "vectors":
            return "bisect: values alone; vectors are of merge"
        if c.LANES & (c.LANES - 1) or c.LANES > 32:
            return f"LANES={c.LANES} is not a power of two up to 32"
    else:
        if problem.want != "vectors":
            return "merge: vectors are wanted of it; values alone are of bisect"
        if work.warps(problem) != c.WARPS:
            return f"WARPS={c.WARPS} of {problem.N} rows: one for eight, {work.warps(problem)}"
    return configs.too_large(work, problem, c, device, together=True)


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering."""
    found: list[Config] = [Bisect(lanes) for lanes in (1, 2, 4, 8, 16)]
    found += [Merge(work.warps(problem), blocks) for blocks in (1, 2, 3, 4, 6, 8)]
    yield from (config for config in found if illegal(problem, config, device) is None)
