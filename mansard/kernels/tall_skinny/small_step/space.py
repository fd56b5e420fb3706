"""The configurations of `small_step`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

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


Config = Block
VARIANTS: dict[str, type[Block]] = {"block": Block}
to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "small_step", VARIANTS)


def illegal(problem: Problem, c: Block, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if elsewhere := configs.elsewhere(c, device):
        return elsewhere
    if c.BLOCK % 32 or not problem.N <= c.BLOCK <= 1024:
        return f"BLOCK={c.BLOCK}: whole warps, a thread for each of {problem.N} columns, at most 1024"
    return configs.too_large(work, problem, c, device)


def candidates(problem: Problem, device: Device) -> Iterator[Block]:
    """Every legal configuration."""
    for threads in (64, 128, 256, 512, 1024):
        if illegal(problem, Block(threads), device) is None:
            yield Block(threads)
