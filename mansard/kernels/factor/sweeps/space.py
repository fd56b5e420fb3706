"""The configurations of `sweeps`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Range
from ...common import configs
from ...common.configs import OnGpu
from . import spec, work


@dataclass(frozen=True)
class Thread(OnGpu):
    """One matrix per thread, its diagonals in shared memory; of large matrices fewer than threads."""

    VARIANT: ClassVar[str] = "thread"
    THREADS: int = 64  # per block, as many matrices up to 1 KB per diagonal
    BLOCKS_PER_SM: int = 1  # at least
    MATRICES_PER_BLOCK: Annotated[int, Range(0, 128)] = 0  # 0: as many as threads, or as shared memory holds


Config = Thread
VARIANTS: dict[str, type[Thread]] = {"thread": Thread}
to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "sweeps", VARIANTS)


def illegal(problem: Problem, c: Thread, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if reason := configs.elsewhere(c, device) or spec.refusal(problem):
        return reason
    if c.THREADS % 32:
        return f"THREADS={c.THREADS} is not a multiple of a warp's 32 threads"
    if c.MATRICES_PER_BLOCK > c.THREADS:
        return f"MATRICES_PER_BLOCK={c.MATRICES_PER_BLOCK} is more than one per thread, {c.THREADS}"
    return configs.too_large(work, problem, c, device, together=True)


def candidates(problem: Problem, device: Device) -> Iterator[Thread]:
    """Every legal configuration."""
    for threads in (32, 64, 128):
        if illegal(problem, Thread(threads), device) is None:
            yield Thread(threads)
