"""The configurations of `gram` for column-major operands: parameters, candidates, and why a combination is illegal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import REAL, Problem
from ....rules import Names, Numbers, Range
from ...common.configs import OnGpu
from ...common.fields import Reduce
from . import work_columns


@dataclass(frozen=True)
class Columns(OnGpu):
    """FP64 tensor cores fed by a ring of bulk copies, one per column; column-major."""

    VARIANT: ClassVar[str] = "columns"
    WARPS_M: int = 1
    WARPS_N: int = 1
    WARPS_K: int = 8
    GROUPS: int = 1  # teams per block, each with a ring of its own
    ROWS: Annotated[int, Range(1, 8192)] = 128  # rows per chunk
    STAGES: int = 3  # chunks per ring
    FEED: Annotated[str, Names("own", "producer")] = "own"  # who refills the ring
    SPREAD: Annotated[str, Names("none", "rotate")] = "rotate"  # what keeps columns from colliding in the banks
    KSTEP: Annotated[int, Numbers(4, 8, 16)] = 4  # rows per tensor-core instruction
    FOLD: int = 1  # blocks of a chunk's rows viewed as columns side by side
    BLOCKS_PER_SM: int = 1
    REDUCE: Reduce = "ticket"
    UNIT: Annotated[str, Names("float64", "tf32x3")] = "float64"  # what multiplies float32 data
    TRIANGLE: bool = False  # WARPS_M warps share one half of A^H A


def illegal(problem: Problem, c: Columns, device: Device) -> str | None:
    """Why the configuration cannot be used, apart from the device's room for it."""
    whole = problem.aligned and not any(step % 16 for step in work_columns.steps(problem))
    if not whole or not work_columns.is_column_major(problem):
        return "bulk copies of columns need column-major operands whose columns all start on 16-byte boundaries"
    return unfit(problem, c, device)


def unfit(problem: Problem, c: Any, device: Device) -> str | None:
    """Why warps cannot share chunks of columns as the configuration says, however these are fetched."""
    if device.capability < 90:
        return f"needs m16n8k4 tensor-core instructions (sm_90), the device is {device.arch}"
    if c.FOLD > 1 and c.FOLD * max(problem.M, problem.N) > 8:
        return f"FOLD={c.FOLD} views more than eight columns side by side"
    if c.ROWS * problem.itemsize % (work_columns.LINE * c.FOLD * c.WARPS_K):
        return f"ROWS={c.ROWS} does not split into FOLD={c.FOLD} x WARPS_K={c.WARPS_K} parts of whole 128-byte lines"
    shape = work_columns.columns_shape(problem, c)
    if 2 * shape.lines % shape.units:
        return f"KSTEP={c.KSTEP} takes {shape.units // 2} lines at once, a warp has {shape.lines}"
    if c.SPREAD not in ("none", "rotate"):
        return f"SPREAD={c.SPREAD!r} is not one of none, rotate"
    if c.UNIT not in ("float64", "tf32x3"):
        return f"UNIT={c.UNIT!r} is not one of float64, tf32x3"
    if c.UNIT == "tf32x3" and (REAL[problem.dtype] != "float32" or c.KSTEP != 8 or problem.K < 4096):
        return "tf32x3 multiplies float32 data, eight rows at a time, and is accurate enough from K = 4096"
    if c.TRIANGLE and (not problem.same or c.WARPS_N > 1 or c.FOLD > 1 or shape.slots_m // 2 % c.WARPS_M):
        return f"TRIANGLE is for A^H A, with WARPS_N=1 and WARPS_M={c.WARPS_M} dividing {shape.slots_m // 2} pairs"
    if c.GROUPS > 15:
        return f"GROUPS={c.GROUPS}: there are 15 named barriers"
    if shape.threads > 1024:
        return f"{shape.threads} threads exceed a block's 1024"
    return None


def folds(problem: Problem) -> tuple[int, ...]:
    """Blocks of rows to view side by side so that narrow matrices fill eight columns."""
    fold = {1: 8, 2: 4, 3: 2, 4: 2}.get(max(problem.M, problem.N), 1)
    return (fold, 1) if fold > 1 else (1,)


def warp_grids(problem: Problem, fold: int) -> Iterator[tuple[int, int, bool]]:
    """(WARPS_M, WARPS_N, TRIANGLE) that compute little beyond C (the same number of octets for every warp)."""
    words = 2 if problem.is_complex else 1
    rows, columns = -(-fold * problem.M // 8), -(-fold * problem.N // 8)
    grids = [(m, n) for m in range(1, min(rows, 8) + 1) for n in range(1, min(columns, 8) + 1) if m * n <= 16]
    computed = {(m, n): -(-rows // m) * m * -(-columns // n) * n for m, n in grids}
    for m, n in grids:
        registers = 4 * words**2 * -(-rows // m) * -(-columns // n)
        if registers <= 160 and computed[m, n] <= 1.2 * min(computed.values()):
            yield m, n, False
    pairs = -(-rows * words // 2)
    if problem.same and pairs > 2:
        yield from ((warps, 1, True) for warps in range(2, pairs + 1) if pairs % warps == 0)


def candidates(problem: Problem, reduce: str) -> Iterator[Columns]:
    """Everything worth considering: copies of 256 bytes to 8 KB, chunks of 8 to 72 KB, four to sixteen warps."""
    if "col" not in (problem.layout_a, problem.layout_b):
        return
    units: list[tuple[str, int]] = [("float64", 4)]
    if REAL[problem.dtype] == "float32":
        units.append(("tf32x3", 8))
    elif max(problem.M, problem.N) * (2 if problem.is_complex else 1) > 40:  # arithmetic counts: fewer, longer steps
        units += [("float64", 8), ("float64", 16)]
    heights = [size // problem.itemsize for size in (256, 512, 1024, 2048, 4096, 8192)]
    for fold in folds(problem):
        for (wm, wn, triangle), wk, groups in product(warp_grids(problem, fold), (1, 2, 4, 8), (1, 2, 3, 4, 6, 8)):
            if not 4 <= wm * wn * wk * groups <= 16:
                continue
            for rows, feed, (unit, kstep), spread in product(heights, ("own", "producer"), units, ("rotate", "none")):
                one = Columns(wm, wn, wk, groups, rows, 1, feed, spread, kstep, fold, 1, reduce, unit, triangle)
                stage = work_columns.columns_shape(problem, one).stage_bytes
                if 8 << 10 <= stage <= 72 << 10:
                    yield from (replace(one, STAGES=stages) for stages in depths(stage * groups))


def depths(bytes_per_stage: int, room: int = 224 << 10) -> tuple[int, ...]:
    """Stages worth trying: what fits `room`, bytes of a block's shared memory, and half of it."""
    fit = min(8, room // bytes_per_stage)
    return tuple(dict.fromkeys(stages for stages in (fit, fit // 2) if stages >= 2))
