"""The configurations of `systems`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from ...common.configs import OnGpu
from . import spec, work


@dataclass(frozen=True)
class Columns(OnGpu):
    """Solutions: some lanes of a warp per matrix factor it in shared memory; a lane per right-hand side substitutes."""

    VARIANT: ClassVar[str] = "columns"
    TEAM: int = 32  # lanes per matrix
    WARPS: int = 4  # per block
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Residuals(OnGpu):
    """Squared residuals: a warp per matrix and some of its columns."""

    VARIANT: ClassVar[str] = "residuals"
    LANES_N: int = 1  # lanes along columns; the others of a warp have different rows
    WARPS: int = 4
    BLOCKS_PER_SM: int = 2


@dataclass(frozen=True)
class Determinants(OnGpu):
    """Determinants from LU factors: a warp per matrix."""

    VARIANT: ClassVar[str] = "determinants"
    WARPS: int = 4
    BLOCKS_PER_SM: int = 2


@dataclass(frozen=True)
class Check(OnGpu):
    """Whether one of many integers is not zero: one block of threads."""

    VARIANT: ClassVar[str] = "check"
    WARPS: int = 32
    BLOCKS_PER_SM: int = 1


Config: TypeAlias = Columns | Residuals | Determinants | Check
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Columns, Residuals, Determinants, Check)}
_KINDS: dict[str, type[Config]] = {
    "residuals": Residuals, "check": Check, **dict.fromkeys(spec.NUMBERS, Determinants)
}  # fmt: skip
_LANES = (1, 2, 4, 8, 16, 32)  # of a warp: powers of two, so that teams and columns divide it

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "systems", VARIANTS)


def illegal(problem: Problem, c: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if reason := configs.elsewhere(c, device) or spec.refusal(problem):
        return reason
    if not isinstance(c, _KINDS.get(problem.want, Columns)):
        return f"want={problem.want!r} is not of {c.VARIANT}"
    lanes = work.lanes(c)
    if lanes not in _LANES or not 1 <= c.WARPS <= 32:
        return f"{lanes} lanes, {c.WARPS} warps: 1, 2, 4, 8, 16 or 32 lanes, 1 to 32 warps"
    return configs.too_large(work, problem, c, device, together=True)


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering."""
    found: list[Config] = [Check(32), *(Determinants(warps) for warps in (1, 2, 4, 8))]
    for lanes, warps in product(_LANES, (1, 2, 4, 8)):
        found += [Columns(lanes, warps), Residuals(lanes, warps)]
    yield from (config for config in found if illegal(problem, config, device) is None)
