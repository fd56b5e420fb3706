"""How powers are computed: plainly, a launch per level group, or in one launch; by what a model says, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...codegen.geometry import Device
from ...kernels.common import fields
from ...kernels.sparse.powers import defaults, fit, work
from ...kernels.sparse.powers.space import Groups, Persistent
from ...machine import machine
from ...plan import pin
from ...plan.problem import Problem
from . import schedule
from .powers_matrix import Ordered
from .reach import host, row_reach

EXECUTIONS = ("plain", "groups", "persistent")
_WHOLE = 0.7  # of a cache: a matrix that takes less stays there by itself
_LEAST = 4.0  # times the second cache: with less of a matrix blocks hardly get into step (H200, delaunay, 94 MB: 0.8 x)
_REACHED = 1.5  # times as long as the bandwidths alone let expect: 1.3 to 1.9 on an H200
_SCATTERED = 0.45  # of the bandwidth, where vectors are permuted
_FILLED = 0.6  # least share of a persistent launch's turns in which all powers are under way
_LEVEL = 8 << 20  # bytes of a level that a GPU's second cache has room for, some at once
_GAIN = 1.03  # predicted, from which blocking is worth its risk
_L2_RATIO, _SHARED_RATIO = 2.1, 7.0  # of an H200's caches to its memory


@dataclass(frozen=True)
class Choice:
    """What will run, why, and what it should take."""

    execution: str
    reason: str
    config: Any  # of `groups`, or `simd`
    passes: tuple[Persistent, ...] = ()
    ranges: Any = None  # rows at which groups begin, int32
    lag: int = 1
    seconds: tuple[tuple[str, float], ...] = ()  # predictions


def level_budget(device: Device) -> int:
    """Bytes of a level that need not be narrower: some of them at once pass through a cache."""
    return min(_LEVEL, 2 * cache_bytes()[0]) if device.backend == "cpu" else _LEVEL


def choose(problem: Problem, ordered: Ordered, device: Device, asked: str | None, threads: int) -> Choice:
    """The execution that was asked for (a ValueError says why it cannot be), or the one that should be fastest."""
    if device.backend == "cpu":
        return _on_cpu(problem, ordered, device, asked, threads)
    plain_config = _groups_config(problem, device, "normal")
    passes, reason = _passes(problem, ordered, device)
    seconds = predictions(problem, ordered, device, passes)
    text = dict(seconds)
    if asked == "groups":
        ranges = group_ranges(problem, ordered, _CACHED * device.l2_bytes)
        return Choice("groups", "asked for", _groups_config(problem, device, "normal"), (), ranges, 1, seconds)
    if asked == "persistent":
        if not passes:
            raise ValueError(f"execution='persistent' does not serve this matrix: {reason}")
        return Choice("persistent", "asked for", plain_config, tuple(passes), seconds=seconds)
    if asked is None:
        reason = "one power is one product" if problem.P < 2 else reason or _against(problem, ordered, device, passes)
        if not reason and text["plain"] < _GAIN * text["persistent"]:
            reason = "the model expects no gain"
        if not reason:
            gain = text["plain"] / text["persistent"]
            return Choice("persistent", f"{gain:.2f} x by the model", plain_config, tuple(passes), seconds=seconds)
    return Choice("plain", "asked for" if asked else reason, plain_config, seconds=seconds)


_CACHED = 0.6  # of L2 that level groups may fill


def _groups_config(problem: Problem, device: Device, cache: str) -> Groups:
    config = defaults.default(problem, device, "groups")
    assert isinstance(config, Groups)
    return replace(config, **({"CACHE": cache} | _pinned(Groups)))


def _pinned(kind: type[Groups | Persistent]) -> dict[str, Any]:
    """Pinned values of the parameters that this kind of configuration has, checked."""
    given = {name: value for name, value in pin.pins().items() if name in kind.__dataclass_fields__}
    return fields.checked("powers", kind, given)


def _passes(problem: Problem, ordered: Ordered, device: Device) -> tuple[list[Persistent], str]:
    pinned = _pinned(Persistent)
    passes, reason = fit.passes(problem, ordered.pattern(), device)
    if "RETAIN" in pinned and passes:  # says what one launch does
        passes = passes[:1]
    return [fit.changed(problem, config, device, pinned) for config in passes] if pinned else passes, reason


def _against(problem: Problem, ordered: Ordered, device: Device, passes: list[Persistent]) -> str:
    """Why blocking would not pay, "" if it may."""
    size = ordered.sell.buffer.size
    if size < _WHOLE * device.l2_bytes:
        return f"the matrix ({size / 1e6:.3g} MB) stays in the cache as it is"
    if size < _LEAST * device.l2_bytes:
        return f"the matrix ({size / 1e6:.3g} MB) is less than {_LEAST:g} times the second cache"
    if passes[0].DIRECT:
        return "some rows are much longer than others: their tiles do not fit shared memory"
    tiles = -(-problem.ROWS // (ordered.sell.C * passes[0].TILE))
    steps = tiles / device.multiprocessors
    turns = steps + (problem.P / len(passes) - 1) * passes[0].LAG
    return "" if steps > _FILLED * turns else f"too few levels: {steps:.0f} steps, all powers under way in few of them"


def predictions(problem: Problem, ordered: Ordered, device: Device, passes: list[Persistent]) -> Any:
    """Seconds of plain products and of the passes: memory once per pass, caches for the rest (equation 4.8)."""
    known = machine.known(device)
    matrix, vectors = float(ordered.sell.buffer.size), 2.0 * problem.ROWS * problem.NVECS * problem.itemsize
    memory = 0.94 * known.read_bandwidth
    found = [("plain", problem.P * ((matrix + vectors) / memory + known.launch_seconds))]
    if passes:
        total = known.launch_seconds + (problem.P - 1) * vectors / 2 / memory  # what is prefilled
        for config in passes:
            lengths = work.retained(config.RETAIN)
            again, kept = len(lengths) - 1, sum(lengths) - len(lengths)
            total += (matrix + (1 + sum(lengths)) * vectors / 2) / memory
            total += matrix * (again / _L2_RATIO + kept / _SHARED_RATIO) / memory + known.launch_seconds
        moved = (1 + problem.P) * vectors if ordered.permutation is not None else 0.0
        found.append(("persistent", _REACHED * total + moved / (_SCATTERED * memory)))
    return tuple(found)


# ---- groups of rows ---------------------------------------------------------------------------------------


def group_ranges(problem: Problem, ordered: Ordered, budget: float, p: int | None = None) -> Any:
    """Rows at which level groups begin, int32: p + 1 of them keep to the budget, if levels are narrow enough."""
    levels = ordered.levels
    if levels is None or levels.count == 0:
        return np.array([0, problem.ROWS], np.int32)
    lengths = host(ordered.xp.repeat(ordered.sell.widths, ordered.sell.C)[: problem.ROWS])
    row = lengths * float(work.entry_bytes(problem)) + 2 * problem.NVECS * problem.itemsize
    groups = schedule.groups(levels, row, budget, problem.P if p is None else p)
    return levels.starts[groups].astype(np.int32)


def launch_order(ordered: Ordered, ranges: Any, p: int) -> tuple[list[tuple[int, int]], int]:
    """(group, power) such that what a group reads has been computed, and the lag between powers that this takes."""
    lag = range_lag(ordered, ranges)[1]
    count = len(ranges) - 1
    tasks = [(turn - (k - 1) * lag, k) for turn in range(count + (p - 1) * lag) for k in range(1, p + 1)]
    return [(group, k) for group, k in tasks if 0 <= group < count], lag


def range_lag(ordered: Ordered, ranges: Any) -> tuple[Any, int]:
    """The last range that each range reads, int32, and how far ahead that is at most."""
    high = host(row_reach(ordered.rows.indptr, ordered.rows.indices)[1])
    highs = np.maximum.accumulate(np.maximum(high, np.arange(len(high))))
    last = np.maximum(ranges[1:] - 1, 0)
    reach = np.searchsorted(ranges, highs[last], side="right") - 1 if len(highs) else np.zeros(len(last), int)
    reach = np.clip(np.maximum(reach, np.arange(len(reach))), 0, max(0, len(reach) - 1)).astype(np.int32)
    return reach, max(1, int((reach - np.arange(len(reach))).max(initial=1)))


# ---- CPUs -------------------------------------------------------------------------------------------------


def _on_cpu(problem: Problem, ordered: Ordered, device: Device, asked: str | None, threads: int) -> Choice:
    config = defaults.default(problem, device)
    whole = np.array([0, problem.ROWS], np.int32)
    if asked == "persistent":
        raise ValueError("execution='persistent' is for GPUs: use 'groups' on CPUs")
    if asked == "plain" or (asked is None and problem.P < 2):
        return Choice("plain", "asked for" if asked else "one power is one product", config, ranges=whole)
    second, third = cache_bytes()
    size = ordered.sell.buffer.size
    if asked is None and size < 0.5 * second * threads:
        reason = f"the matrix ({size / 1e6:.3g} MB) stays in the second caches as it is"
        return Choice("plain", reason, config, ranges=whole)
    for name, budget in (("second", 0.6 * second * threads), ("third", 0.3 * third)):
        held = 2 * problem.P if threads > 1 else problem.P
        ranges = chunked(group_ranges(problem, ordered, budget, held), problem.ROWS, ordered.sell.C)
        _, lag = range_lag(ordered, ranges)
        lag += threads > 1  # a group's slack, so that nobody waits for the slowest
        window = problem.P * lag * size / max(1, len(ranges) - 1)
        if window <= 1.2 * budget and len(ranges) > 4 * problem.P * lag:
            reason = f"groups of rows pass through the {name} caches ({budget / 1e6:.3g} MB)"
            return Choice("groups", "asked for" if asked else reason, config, ranges=ranges, lag=lag)
    if asked == "groups":
        return Choice("groups", "asked for", config, ranges=ranges, lag=lag)
    return Choice("plain", "levels are too wide for the caches, or too few", config, ranges=whole)


def chunked(ranges: Any, rows: int, C: int) -> Any:
    """The same, beginning at chunks of C rows."""
    found = np.unique(np.minimum(-(-ranges // C) * C, rows)).astype(np.int32)
    return found if len(found) > 1 else np.array([0, rows], np.int32)


@lru_cache(maxsize=1)
def cache_bytes() -> tuple[int, int]:
    """Of the second cache of a core, and of the third (or second) that cores share."""
    sizes = {1: 1 << 15, 2: 1 << 20, 3: 0}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, kind = int((index / "level").read_text()), (index / "type").read_text().strip()
            if kind != "Instruction":
                text = (index / "size").read_text().strip()
                sizes[level] = int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0)
        except (OSError, ValueError, KeyError):
            continue
    return sizes[2], max(sizes[3], sizes[2])
