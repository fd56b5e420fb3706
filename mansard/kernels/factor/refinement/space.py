"""The configurations of `refinement`."""

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
class Matrices(OnGpu):
    """Norms of matrices, and the matrices in single precision: a block for each part of the rows of a matrix."""

    VARIANT: ClassVar[str] = "matrices"
    WARPS: int = 8  # per block
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Columns(OnGpu):
    """Sizes of right-hand sides or residuals, and who has converged: a block per matrix, a warp per column."""

    VARIANT: ClassVar[str] = "columns"
    WARPS: int = 4
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Update(OnGpu):
    """Corrections added to solutions: a thread per entry."""

    VARIANT: ClassVar[str] = "update"
    WARPS: int = 8
    BLOCKS_PER_SM: int = 1


Config: TypeAlias = Matrices | Columns | Update
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Matrices, Columns, Update)}
KINDS: dict[str, type[Config]] = {
    **dict.fromkeys(spec.OF_MATRICES, Matrices), **dict.fromkeys(spec.OF_COLUMNS, Columns), "update": Update
}  # fmt: skip

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "refinement", VARIANTS)


def illegal(problem: Problem, c: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if reason := configs.elsewhere(c, device) or spec.refusal(problem):
        return reason
    if not isinstance(c, KINDS[problem.want]):
        return f"want={problem.want!r} is not of {c.VARIANT}"
    if not 1 <= c.WARPS <= 32:
        return f"{c.WARPS} warps: 1 to 32"
    return configs.too_large(work, problem, c, device, together=True)


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering."""
    found = (KINDS[problem.want](warps) for warps in (1, 2, 4, 8, 16))
    yield from (config for config in found if illegal(problem, config, device) is None)
