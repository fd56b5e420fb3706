"""The configurations of `gram` for column-major operands whose columns start anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import REAL, Problem
from ....rules import Names, Numbers, Range
from ...common.configs import OnGpu
from ...common.fields import Reduce
from . import space_columns, work_columns


@dataclass(frozen=True)
class Entries(OnGpu):
    """The sums of `columns`, fed by asynchronous copies of single entries; column-major, any alignment."""

    VARIANT: ClassVar[str] = "entries"
    FEED: ClassVar[str] = "own"  # a team's lanes fetch its chunks
    WARPS_M: int = 1
    WARPS_N: int = 1
    WARPS_K: int = 8
    GROUPS: int = 1  # teams per block, each with stages of its own
    ROWS: Annotated[int, Range(1, 8192)] = 128  # rows per chunk
    STAGES: int = 3  # chunks per team
    SPREAD: Annotated[str, Names("none", "rotate")] = "rotate"  # what keeps columns from colliding in the banks
    KSTEP: Annotated[int, Numbers(4, 8, 16)] = 4  # rows per tensor-core instruction
    FOLD: int = 1  # blocks of a chunk's rows viewed as columns side by side
    BLOCKS_PER_SM: int = 1
    REDUCE: Reduce = "ticket"
    UNIT: Annotated[str, Names("float64", "tf32x3")] = "float64"  # what multiplies float32 data
    TRIANGLE: bool = False  # WARPS_M warps share one half of A^H A


def illegal(problem: Problem, c: Entries, device: Device) -> str | None:
    """Why the configuration cannot be used, apart from the device's room for it."""
    if not work_columns.is_column_major(problem):
        return "copies of columns need column-major operands"
    if c.STAGES < 2:
        return "STAGES: two at least"
    return space_columns.unfit(problem, c, device)


def is_needed(problem: Problem) -> bool:
    """Whether bulk copies cannot serve column-major operands: a column starts off a 16-byte boundary."""
    return not problem.aligned or any(step % 16 for step in work_columns.steps(problem))


_WARPS = 8  # warps of a block: two for each scheduler of a multiprocessor
_SUMS = 96  # registers of a lane for its sums, of the 255 that there are
_ROOM = 220 << 10  # bytes of a block's shared memory
_STAGE = 64 << 10  # bytes of a chunk: more of them would leave room for few


def ranked(problem: Problem, reduce: str) -> Iterator[Entries]:
    """Rules of thumb, the best guess first: two teams, then one; chunks of which there is room for three."""
    if not work_columns.is_column_major(problem) or not is_needed(problem):
        return
    fold = space_columns.folds(problem)[0]
    words = 2 if problem.is_complex else 1
    width = max(problem.M, problem.N) * words
    single = REAL[problem.dtype] == "float32" and problem.K >= 4096 and width > 16
    unit, kstep = ("tf32x3", 8) if single else ("float64", 8 if width > 40 else 4)
    for (wm, wn, triangle), spread in product(_grids(problem, fold), ("rotate", "none")):
        team = wm * wn
        for groups, size in product((2, 1), (1024, 512, 2048, 256, 128)):
            wk = max(1, _WARPS // team // groups)
            rows = size // problem.itemsize
            one = Entries(wm, wn, wk, groups, rows, 2, spread, kstep, fold, 1, reduce, unit, triangle)
            stage = work_columns.columns_shape(problem, one).stage_bytes
            fit = min(6, _ROOM // (groups * stage))
            if stage <= _STAGE and fit >= 3:
                yield replace(one, STAGES=fit)


def _grids(problem: Problem, fold: int) -> Iterator[tuple[int, int, bool]]:
    """Warps over C and whether they share a triangle: as few as hold all sums in their registers, and of these the ones
    that read the least."""
    found, width = [], max(problem.M, problem.N) * (2 if problem.is_complex else 1)
    for wm, wn, triangle in space_columns.warp_grids(problem, fold):
        one = work_columns.columns_shape(problem, Entries(wm, wn, 1, 1, 256, FOLD=fold, TRIANGLE=triangle))
        if wm * wn <= (_WARPS if width <= 64 else 2 * _WARPS):  # wide sums fill the registers of more warps
            slots = one.slots_m + (0 if one.once else one.slots_n)
            found.append(((8 * one.tiles > _SUMS, wm * wn, wm * wn * slots), (wm, wn, triangle)))
    yield from (grid for _, grid in sorted(found))
