"""The configurations of `ragged_factor`: what is legal, and what is worth considering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space_cpu
from .space_cpu import Rows

Config = Rows
VARIANTS: dict[str, type[Rows]] = {Rows.VARIANT: Rows}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "ragged_factor", VARIANTS)


def illegal(problem: Problem, config: Rows, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    return configs.elsewhere(config, device)


def candidates(problem: Problem, device: Device) -> Iterator[Rows]:
    """Fewer and more rows at a time; none on GPUs."""
    if device.backend == "cpu":
        first = space_cpu.default(problem, device)
        yield from (replace(first, ROWS=rows) for rows in (1, 2, 4, 8))
