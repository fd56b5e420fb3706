"""Ranges of rows that pass through a cache: where level groups begin, how far each reads ahead, in which order."""

from __future__ import annotations

import numpy as np

from .....arrays.types import Array
from .....kernels.sparse.powers import work
from .....plan.problem import Problem
from ...storage import host
from . import schedule
from .ordered import Ordered
from .reach import row_reach


def group_ranges(problem: Problem, ordered: Ordered, budget: float, p: int | None = None) -> Array:
    """Rows at which level groups begin, int32: p + 1 of them keep to the budget, if levels are narrow enough."""
    levels, sell = ordered.levels, ordered.layout
    if levels is None or levels.count == 0:
        return whole(problem.ROWS)
    lengths = host(ordered.xp.repeat(sell.widths, sell.C)[: problem.ROWS])
    row = lengths * float(work.entry_bytes(problem)) + 2 * problem.NVECS * problem.itemsize
    groups = schedule.groups(levels, row, budget, problem.P if p is None else p)
    return levels.starts[groups].astype(np.int32)


def whole(rows: int) -> Array:
    """All rows as one range."""
    return np.array([0, rows], np.int32)


def chunked(ranges: Array, rows: int, C: int) -> Array:
    """Ranges that begin at chunks of C rows."""
    found = np.unique(np.minimum(-(-ranges // C) * C, rows)).astype(np.int32)
    return found if len(found) > 1 else whole(rows)


def range_lag(ordered: Ordered, ranges: Array) -> tuple[Array, int]:
    """The last range that each range reads, int32, and how far ahead that is at most."""
    high = host(row_reach(ordered.rows.indptr, ordered.rows.indices)[1])
    highs = np.maximum.accumulate(np.maximum(high, np.arange(len(high))))
    last = np.maximum(ranges[1:] - 1, 0)
    reach = np.searchsorted(ranges, highs[last], side="right") - 1 if len(highs) else np.zeros(len(last), int)
    reach = np.clip(np.maximum(reach, np.arange(len(reach))), 0, max(0, len(reach) - 1)).astype(np.int32)
    return reach, max(1, int((reach - np.arange(len(reach))).max(initial=1)))


def launch_order(ordered: Ordered, ranges: Array, p: int) -> list[tuple[int, int]]:
    """(group, power) such that what a group reads has been computed before."""
    lag, count = range_lag(ordered, ranges)[1], len(ranges) - 1
    tasks = [(turn - (k - 1) * lag, k) for turn in range(count + (p - 1) * lag) for k in range(1, p + 1)]
    return [(group, k) for group, k in tasks if 0 <= group < count]
