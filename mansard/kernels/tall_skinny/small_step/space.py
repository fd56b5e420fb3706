"""The configurations of `small_step`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from ...common.configs import OnGpu
from . import work


@dataclass(frozen=True)
class Block(OnGpu):
    """One block with the matrices in shared memory."""

    VARIANT: ClassVar[str] = "block"
    BLOCKS_PER_SM: ClassVar[int] = 1
    BLOCK: int = 512  # threads


@dataclass(frozen=True)
class Pivots(OnGpu):
    """One block with the columns of a sketch in registers."""

    VARIANT: ClassVar[str] = "pivots"
    BLOCKS_PER_SM: ClassVar[int] = 1
    BLOCK: int = 256  # threads


Config: TypeAlias = Block | Pivots
VARIANTS: dict[str, type[Config]] = {"block": Block, "pivots": Pivots}
to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "small_step", VARIANTS)


def illegal(problem: Problem, c: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if elsewhere := configs.elsewhere(c, device):
        return elsewhere
    if problem.sketched != isinstance(c, Pivots):
        return f"{c.VARIANT} is for steps from {'Gram matrices' if problem.sketched else 'sketches'}"
    if isinstance(c, Pivots) and threads_of_pivots(problem.N) != c.BLOCK:
        return f"BLOCK={c.BLOCK}: eight threads for each of {problem.N} columns, in whole warps"
    if c.BLOCK % 32 or not problem.N <= c.BLOCK <= 1024:
        return f"BLOCK={c.BLOCK}: whole warps, a thread for each of {problem.N} columns, at most 1024"
    return configs.too_large(work, problem, c, device)


def threads_of_pivots(columns: int) -> int:
    """Eight lanes for each column, in whole warps."""
    return -(-columns // 4) * 32


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration."""
    if problem.sketched:
        yield Pivots(threads_of_pivots(problem.N))
        return
    for threads in (64, 128, 256, 512, 1024):
        if illegal(problem, Block(threads), device) is None:
            yield Block(threads)
