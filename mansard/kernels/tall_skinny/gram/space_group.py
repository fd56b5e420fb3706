"""The configurations of `gram` that multiply by warpgroups: parameters, legality and candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import REAL, Problem
from ....rules import Names, Range
from ...common.configs import OnGpu
from ...common.fields import Reduce
from . import work, work_group

_NARROWEST = 20  # columns from where arithmetic may be the limit


@dataclass(frozen=True)
class Group(OnGpu):
    """Warpgroups fed by a ring of bulk copies, three TF32 products per float32 one; row-major, rows of any width."""

    VARIANT: ClassVar[str] = "group"
    FOLD: ClassVar[int] = 1
    WARPS_K: ClassVar[int] = 1
    GROUPS: int = 1  # teams per block, of a warpgroup for every 64 real columns of A, each with a ring of its own
    ROWS: Annotated[int, Range(1, 8192)] = 32  # rows per chunk
    STAGES: int = 3  # chunks per ring
    SPREAD: Annotated[str, Names("none", "shift")] = "none"  # what keeps rows from colliding in the banks
    BLOCKS_PER_SM: int = 1
    REDUCE: Reduce = "sliced"


def refusal(problem: Problem, c: Group, device: Device) -> str | None:
    """Why there is no such kernel, beyond what a ring of bulk copies asks for."""
    if device.arch != "sm_90a":
        return f"warpgroups multiply on sm_90a, the device is {device.arch}"
    if REAL[problem.dtype] != "float32" or problem.K < 4096:
        return "warpgroups multiply float32 data, as TF32 numbers, accurately enough from K = 4096"
    _, width_m, width_n = work.real_widths(problem, 1)
    if max(width_m, width_n) > 128:
        return f"{max(width_m, width_n)} real columns: a team takes 128 of either matrix"
    if c.SPREAD not in ("none", "shift"):
        return f"SPREAD={c.SPREAD!r} is not one of none, shift"
    shape = work_group.group_shape(problem, c)
    if c.ROWS % 8 or (c.SPREAD == "shift" and c.ROWS % 16) or (c.SPREAD == "none" and c.ROWS // 4 % shape.step):
        return f"ROWS={c.ROWS} does not split into eight rows at a time, free of bank conflicts as far as they can be"
    return f"{shape.threads} threads exceed a block's 1024" if shape.threads > 1024 else None


def candidates(problem: Problem, reduce: str) -> Iterator[Group]:
    """Those worth considering: for complex numbers. In float32 they were as fast as `ring`, or slower."""
    if problem.dtype != "complex64" or problem.layout_a != "row" or min(problem.M, problem.N) < _NARROWEST:
        return
    for groups, rows, spread in product((1, 2, 3, 4), (16, 32, 48, 64, 128), ("none", "shift")):
        one = Group(groups, rows, 2, spread, 1, reduce)
        shape = work_group.group_shape(problem, one)
        if spread == "shift" and shape.clash == 1:
            continue  # nothing to spread
        room = 224 * 1024 - shape.planes_bytes
        fit = min(8, room // (shape.stage_bytes * groups))
        yield from (replace(one, STAGES=n) for n in dict.fromkeys((fit, fit - 1, 2)) if n >= 2)
