"""The configurations of `tsmm` for column-major A: parameters, candidates, and why a combination is illegal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import REAL, Problem
from ....rules import Names, Numbers, Range
from ...common.configs import OnGpu, up
from . import work_columns


@dataclass(frozen=True)
class Columns(OnGpu):
    """Tensor cores, or a lane per row, fed by asynchronous copies of columns that start anywhere; column-major A."""

    VARIANT: ClassVar[str] = "columns"
    WARPS_N: Annotated[int, Range(1, 8)] = 1  # warps of a team, side by side over the columns of W
    GROUPS: Annotated[int, Range(1, 32)] = 8  # teams per block
    ROWS: Annotated[int, Numbers(16, 32, 64, 128, 256, 512)] = 32  # rows of a tile
    DEPTH: Annotated[int, Range(1, 64)] = 16  # columns of A per stage
    STAGES: Annotated[int, Range(2, 16)] = 4  # stages per team
    OUT: Annotated[int, Range(0, 512)] = 8  # rows of W in shared memory at once; 0: stored by the lanes
    UNIT: Annotated[str, Names("float64", "tf32x3", "fma")] = "float64"  # who multiplies
    ROLLED: bool = False  # sixteen columns of A at a time, for fewer registers
    # how tiles are assigned: by a counter, which all teams wait for where tiles are small, or in turns
    ORDER: Annotated[str, Names("tickets", "cyclic")] = "cyclic"
    BLOCKS_PER_SM: int = 1


MOST_OF_A_LANE = 64  # words of results that a lane with whole rows holds
_FEWEST_TERMS = 16  # columns of A from which three TF32 products are accurate enough: rounding grows with fewer


def illegal(problem: Problem, c: Columns, device: Device) -> str | None:
    """Why the configuration cannot be used, apart from the device's room for it."""
    if problem.layout_a != "col":
        return "copies of columns need a column-major A"
    if device.capability < 80:
        return f"needs asynchronous copies (sm_80), the device is {device.arch}"
    if c.OUT and not (problem.layout_w == "row" and problem.pitch_w == problem.N):
        return f"OUT={c.OUT}: results leave one after the other, and rows of W are not dense"
    if c.WARPS_N > 1 and c.GROUPS > 15:
        return f"GROUPS={c.GROUPS}: there are 15 named barriers"
    words = work_columns.words_of(problem)
    if c.UNIT == "fma":
        if c.WARPS_N > 1 or c.ROWS % 32 or c.OUT not in (0, c.ROWS):
            return f"WARPS_N={c.WARPS_N}, ROWS={c.ROWS}, OUT={c.OUT}: a warp takes all columns of 32 rows and more"
        if c.ROWS // 32 * problem.N * words > MOST_OF_A_LANE:
            return f"ROWS={c.ROWS}, N={problem.N}: a lane holds at most {MOST_OF_A_LANE} words of results"
        return None
    if c.DEPTH * words % 8:
        return f"DEPTH={c.DEPTH}: blocks are eight words wide"
    if c.OUT % 8 or (c.OUT and c.ROWS % c.OUT):
        return f"OUT={c.OUT} does not divide ROWS={c.ROWS} into octets of rows"
    if c.UNIT == "tf32x3" and (REAL[problem.dtype] != "float32" or problem.M < _FEWEST_TERMS):
        return f"tf32x3 multiplies float32 data, and is accurate enough from M = {_FEWEST_TERMS}"
    return None


_ROOM = 220 << 10  # bytes of a block's shared memory
_STAGE = 4 << 10  # bytes of a stage
_SUMS = 112  # registers of a lane for its sums: with operands and addresses, of the 255 that there are
_BLOCK_WARPS = 8  # two for each scheduler of a multiprocessor
_TEAMS = (1, 32), (2, 32), (4, 32), (1, 16), (2, 16), (4, 16)  # warps of a team, and rows of its tiles


def ranked(problem: Problem) -> Iterator[Columns]:
    """Rules of thumb, the best guess first: lanes while C is small, tensor cores beyond."""
    out = 1 if problem.layout_w == "row" and problem.pitch_w == problem.N else 0
    words = work_columns.words_of(problem)
    if problem.M * problem.N * words * words <= 64 and problem.N * words <= 16:
        for rows, depth in product((128, 64, 32), (min(problem.M, 8), 4, 2, 1)):
            whole = rows if out and problem.N > 1 else 0
            yield Columns(1, _BLOCK_WARPS, rows, depth, 4, whole, "fma", BLOCKS_PER_SM=2)
    single = REAL[problem.dtype] == "float32" and min(problem.M, problem.N) * words > 16
    for unit, (warps_n, rows) in product(("tf32x3", "float64") if single else ("float64",), _TEAMS):
        per_column = (4 if unit == "tf32x3" else 8) * words * rows // 16
        if per_column * up(up(problem.N, 8), warps_n) <= _SUMS:
            blocks = max(1, min(4, _STAGE // (8 // words * problem.itemsize * rows), up(problem.M * words, 8)))
            rolled = problem.N * words > 64
            base = Columns(warps_n, _BLOCK_WARPS // warps_n, rows, 8 // words * blocks, 2, 8 * out, unit, rolled)
            yield from deeper(problem, base)


def deeper(problem: Problem, base: Columns) -> Iterator[Columns]:
    """A configuration with as many stages as there is room for, then with less deep ones."""
    for depth in (base.DEPTH, base.DEPTH // 2):
        for stages in (6, 4, 3, 2):
            one = replace(base, DEPTH=depth, STAGES=stages)
            if depth and work_columns.shared_bytes(problem, one) <= _ROOM:
                yield one
                break


def candidates(problem: Problem) -> Iterator[Columns]:
    """Configurations worth considering; the model ranks them."""
    if problem.layout_a != "col":
        return
    words = work_columns.words_of(problem)
    for base in ranked(problem):
        yield base
        for groups in (4, 6, 12) if base.WARPS_N == 1 else ():
            for depth in {base.DEPTH, 8 // words}:
                yield from deeper(problem, replace(base, GROUPS=groups, DEPTH=depth))
