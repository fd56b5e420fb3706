"""The configurations of `matmul_gram`: what each parameter means, its candidates, and why a combination is illegal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names, Range
from ...common import configs
from ...common.configs import OnGpu
from . import work


@dataclass(frozen=True)
class Ring(OnGpu):
    """FP64 tensor cores between bulk copies in and out; the sums of the Gram matrix stay in registers."""

    VARIANT: ClassVar[str] = "ring"
    WARPS_K: int = 2  # warps of a team, along the rows of a chunk
    GROUPS: int = 4  # teams per block, each with a ring of its own
    ROWS: Annotated[int, Range(1, 8192)] = 64  # rows per chunk
    STAGES: int = 3  # chunks per ring
    OUT: int = 1  # chunks of W on their way out
    PASSES: int = 1  # how often a warp comes back to a chunk for more of its rows
    REDUCE: Annotated[str, Names("ticket", "sliced")] = "sliced"
    BLOCKS_PER_SM: int = 1


Config = Ring
VARIANTS: dict[str, type[Ring]] = {"ring": Ring}
to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "matmul_gram", VARIANTS)


def illegal(problem: Problem, c: Ring, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if elsewhere := configs.elsewhere(c, device):
        return elsewhere
    if device.capability < 90:
        return f"needs bulk copies and m16n8k8 tensor-core instructions (sm_90), the device is {device.arch}"
    if not problem.aligned:
        return "bulk copies need operands that start on 16-byte boundaries"
    if problem.pitch_a > 1.25 * problem.M + 1 or (problem.in_place and problem.pitch_a != problem.M):
        return f"pitch {problem.pitch_a}: padding would be fetched"
    if c.REDUCE not in ("ticket", "sliced") or c.OUT < 1 or c.GROUPS > 15:
        return f"REDUCE={c.REDUCE!r}, OUT={c.OUT}, GROUPS={c.GROUPS}: ticket or sliced, at least 1, at most 15"
    step = work.shape(problem, c).step
    if c.ROWS % (8 * max(2, step) * c.WARPS_K * c.PASSES):
        return f"ROWS={c.ROWS} does not split into {c.WARPS_K} warps and {c.PASSES} passes of {8 * max(2, step)} rows"
    return configs.too_large(work, problem, c, device)


def candidates(problem: Problem, device: Device) -> Iterator[Ring]:
    """Every legal configuration worth considering; the model ranks them."""
    for wk, groups, rows in product((1, 2, 4, 8), (1, 2, 3, 4, 6, 8), (32, 64, 128, 256, 512)):
        for out, tall, reduce in product((1, 2), (16, 32, 64), ("sliced", "ticket")):
            if 8 <= wk * groups <= 12 and rows >= wk * tall:
                one = Ring(wk, groups, rows, 2, out, rows // wk // tall, reduce)
                size = work.shape(problem, one)
                room = 220 * 1024 - size.small_bytes - groups * out * size.out_bytes
                for stages in dict.fromkeys((min(6, room // (groups * size.stage_bytes)), 2, 3)):
                    config = replace(one, STAGES=int(stages))
                    if stages >= 2 and illegal(problem, config, device) is None:
                        yield config
