"""The configurations of `gram` that form complex products from three real ones: parameters and candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, ClassVar

from ....plan.problem import REAL, Problem
from ....rules import Names, Numbers, Range
from ...common.configs import OnGpu, up
from ...common.fields import Reduce
from . import work

_NARROWEST = 24  # columns from where arithmetic may be the limit


@dataclass(frozen=True)
class Thirds(OnGpu):
    """Tensor cores fed by a ring of bulk copies, three products per complex one; row-major, rows of any width."""

    VARIANT: ClassVar[str] = "thirds"
    FOLD: ClassVar[int] = 1
    TRIANGLE: ClassVar[bool] = False
    WARPS_M: int = 2
    WARPS_N: int = 4
    WARPS_K: int = 1
    GROUPS: int = 1  # teams per block, each with a ring of its own
    ROWS: Annotated[int, Range(1, 8192)] = 32  # rows per chunk
    STAGES: int = 3  # chunks per ring
    FEED: Annotated[str, Names("own", "producer")] = "own"  # who refills the ring
    SPREAD: Annotated[str, Names("none", "rotate", "shift")] = "rotate"  # what keeps rows from colliding in the banks
    KSTEP: Annotated[int, Numbers(4, 8, 16)] = 8  # rows per tensor-core instruction
    BLOCKS_PER_SM: int = 1
    REDUCE: Reduce = "sliced"
    UNIT: Annotated[str, Names("float64", "tf32x3")] = "float64"  # what multiplies float32 data


def refusal(problem: Problem) -> str | None:
    """Which problems have no such kernel; the rest is as for `ring`."""
    if not problem.is_complex or problem.same:
        return "three products are for two complex matrices"
    return None


def candidates(problem: Problem, reduce: str, depths: Callable[[int], tuple[int, ...]]) -> Iterator[Thirds]:
    """Those worth considering."""
    if refusal(problem) or min(problem.M, problem.N) < _NARROWEST or problem.layout_a != "row":
        return
    unit = "tf32x3" if REAL[problem.dtype] == "float32" else "float64"
    ksteps = (8,) if unit == "tf32x3" else (4, 8)
    for (wm, wn), wk, groups in product(_grids(problem), (1, 2, 4), (1, 2, 3, 4, 6)):
        if not 6 <= wm * wn * wk * groups <= 16:
            continue
        for rows, feed, kstep, spread in product((16, 32, 64), ("own", "producer"), ksteps, ("rotate", "shift")):
            one = Thirds(wm, wn, wk, groups, rows, 1, feed, spread, kstep, 1, reduce, unit)
            shape = work.ring_shape(problem, one)
            if spread == "shift" and shape.clash_a == shape.clash_b == 1:
                continue  # nothing to spread
            yield from (replace(one, STAGES=stages) for stages in depths(shape.stage_bytes * groups))


def _grids(problem: Problem) -> list[tuple[int, int]]:
    """Ways to lay warps over C that compute little beyond it."""
    rows, columns = up(problem.M, 8), up(problem.N, 8)
    grids = [(m, n) for m in range(1, min(rows, 8) + 1) for n in range(1, min(columns, 8) + 1) if m * n <= 16]
    computed = {(m, n): up(rows, m) * m * up(columns, n) * n for m, n in grids}
    sums = {(m, n): 12 * up(rows, m) * up(columns, n) for m, n in grids}
    return [grid for grid in grids if sums[grid] <= 160 and computed[grid] <= 1.35 * min(computed.values())]
