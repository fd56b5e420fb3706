"""The configurations of `back_transform`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from ...common.configs import OnGpu
from . import spec, work


@dataclass(frozen=True)
class Lanes(OnGpu):
    """A few lanes of a warp per matrix, whole rows in registers."""

    VARIANT: ClassVar[str] = "lanes"
    LANES: int = 32  # per matrix
    WARPS: int = 2  # per block
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Block(OnGpu):
    """One or more blocks per matrix, rows in registers of one to four lanes."""

    VARIANT: ClassVar[str] = "block"
    SPLIT: int = 1  # lanes per row, of complex matrices for each component
    WARPS: int = 2  # per block; a matrix takes as many blocks as it has rows for
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Warps(OnGpu):
    """Blocks of 32 rows, real or imaginary parts of complex ones; each warp holds some columns of them in registers."""

    VARIANT: ClassVar[str] = "warps"
    WARPS: int = 4  # per block
    BLOCKS_PER_SM: int = 1


Config: TypeAlias = Lanes | Block | Warps
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Lanes, Block, Warps)}
to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "back_transform", VARIANTS)


def illegal(problem: Problem, c: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if reason := configs.elsewhere(c, device) or spec.refusal(problem):
        return reason
    if isinstance(c, Lanes):
        if c.LANES not in (4, 8, 16, 32) or problem.N > 32:
            return f"LANES={c.LANES} of {problem.N} rows: 4, 8, 16 or 32, of up to 32 rows"
    elif isinstance(c, Warps):
        if problem.side == "product":
            return "a product has rows of X, which warps do not share"
        if not 2 <= c.WARPS <= 16 or problem.N < 4 * c.WARPS:
            return f"WARPS={c.WARPS} of {problem.N} columns: 2 to 16, with four columns each"
    elif c.SPLIT not in (1, 2, 4) or problem.N < 4 * c.SPLIT:
        return f"SPLIT={c.SPLIT} of {problem.N} columns: 1, 2 or 4, with four columns each"
    return configs.too_large(work, problem, c, device, together=True)


def resident(problem: Problem, c: Any, device: Device) -> Any:
    """The configuration with as many blocks per multiprocessor as fit, None if not even one does."""
    too_large = partial(configs.too_large, work, problem, device=device, together=True)
    return configs.resident(work, problem, c, device, quarters=False, refused=lambda one: too_large(config=one))


def rough_candidates(problem: Problem) -> Iterator[Config]:
    """Configurations before the number of blocks per multiprocessor is settled."""
    components = problem.N * (2 if problem.is_complex else 1)
    for lanes in (8, 16, 32):
        if problem.N <= 32 and (lanes == 8 or lanes < 2 * components):
            yield from (Lanes(lanes, warps) for warps in (1, 2, 4))
    if problem.N > 128:
        yield from (Warps(warps) for warps in (2, 4, 6, 8, 12, 16))
    for split in (1, 2, 4):
        for warps in (1, 2, 4, 8):
            if problem.N >= 16 and warps * 16 < components * split:
                yield Block(split, warps)


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering."""
    yield from configs.fitting(problem, device, rough_candidates(problem), resident, illegal, fewer=1)
