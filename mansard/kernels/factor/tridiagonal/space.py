"""The configurations of `tridiagonal`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from ..two_sided import reductions
from ..two_sided.reductions import VARIANTS, Block, Config, Lanes, Panels
from . import spec, work

__all__ = [
    "VARIANTS", "Block", "Config", "Lanes", "Panels", "candidates", "from_dict", "illegal", "resident", "to_dict",
]  # fmt: skip

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "tridiagonal", VARIANTS)
resident = partial(reductions.resident, work)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    return reductions.illegal(work, spec.refusal, problem, config, device)


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering."""
    yield from configs.fitting(problem, device, reductions.rough_candidates(problem), resident, illegal, fewer=1)
