"""The configurations of `tsm2r` that multiply by warpgroups: parameters, legality and candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common.configs import OnGpu
from . import work

NARROWEST = 9  # real columns of C from where splitting B again for every tile costs more than warpgroups do


@dataclass(frozen=True)
class Group(OnGpu):
    """Warpgroups on a persistent grid, three TF32 products per float32 one, B split once; row- or column-major."""

    VARIANT: ClassVar[str] = "group"
    LOAD: ClassVar[str] = "bulk"
    UNIT: ClassVar[str] = "tf32x3"
    WARPS_N: ClassVar[int] = 1
    WARPS_K: ClassVar[int] = 1
    GROUPS: int = 3  # warpgroups along the rows of a panel
    TILES: int = 1  # tiles of 64 real rows of each
    DEPTH: int = 64  # real columns per chunk
    PARTS: int = 1  # of a chunk, each with a piece of B
    STAGES: int = 4  # chunks in shared memory
    FEEDERS: int = 4  # warps that fetch them
    ONCE: bool = True  # what was fetched leaves the second cache first, where B is to stay
    JOINED: bool = False  # both halves of B in one instruction
    BLOCKS_PER_SM: int = 1

    @property
    def WARPS_M(self) -> int:
        return 4 * self.GROUPS


def refusal(problem: Problem, c: Group, device: Device) -> str | None:
    """Why there is no such kernel."""
    if device.arch != "sm_90a":
        return f"warpgroups multiply on sm_90a, the device is {device.arch}"
    if problem.layout_a == "any":
        return "A is neither row- nor column-major"
    if work.real_bytes(problem) != 4:
        return "warpgroups multiply float32 and complex64, as TF32 numbers"
    if work.vector(problem) != 4:
        return "bulk copies need rows (or columns) of A that start on 16-byte boundaries"
    if min(c.GROUPS, c.TILES, c.PARTS, c.FEEDERS) < 1:
        return "GROUPS, TILES, PARTS, FEEDERS: one at least"
    unit = 4 * work.tensor_shape(problem, c).group
    if c.DEPTH == 0 or c.DEPTH % (unit * c.PARTS):
        return f"DEPTH={c.DEPTH} does not split into PARTS={c.PARTS} of a multiple of {unit} columns"
    if 128 * c.GROUPS % (2 * c.DEPTH // c.PARTS):
        return f"GROUPS={c.GROUPS}: threads do not divide among {c.DEPTH // c.PARTS} rows of B, four each, by columns"
    return "STAGES: two at least" if c.STAGES < 2 else None


def candidates(problem: Problem, device: Device) -> Iterator[Group]:
    """Those worth considering: panels of 128 to 384 rows, as many chunks as fit, and two or three of them."""
    if problem.layout_a == "any" or work.real_bytes(problem) != 4 or work.width(problem) < NARROWEST:
        return
    feeders = (4, 2) if problem.layout_a == "row" else (2,)  # many short copies, or few long ones
    for (groups, tiles), (depth, parts), joined, per_sm in product(_TEAMS, _CHUNKS, (False, True), (1, 2)):
        one = Group(groups, tiles, depth, parts, JOINED=joined, BLOCKS_PER_SM=per_sm)
        shape = work.tensor_shape(problem, one)
        most = min(8, (device.shared_per_multiprocessor // per_sm - 2048 - shape.small_bytes) // shape.stage_bytes)
        for stages, feed in product(sorted({most, min(most, 3)}), feeders):
            yield replace(one, STAGES=stages, FEEDERS=feed)


# Warpgroups, and tiles of 64 rows of each: as many sums as 255 registers per thread hold.
_TEAMS = ((2, 1), (3, 1), (4, 1), (1, 2), (2, 2), (3, 2))
_CHUNKS = ((32, 1), (64, 1), (64, 2), (128, 1), (128, 2), (128, 4))  # columns of a chunk, and parts it is fetched in
