"""Median, fifth percentile and worst case of every operation: the overview, and what changed between two results."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from ... import units
from .. import freshness
from ..rows import OURS
from ..table import Table
from .points import Point, ours

LEAST = 0.95  # times the best peer: below, a user loses more than runs differ by
WORST = 20  # cases in the list of the slowest beside the best peer
_NOISE = 0.02  # of the time: runs of an idle machine differ by as much whatever their spread


def overview(points: Iterable[Point]) -> Table:
    """One line per operation: % of the device's limit and times the best peer, median to worst."""
    groups: dict[str, list[Point]] = {}
    for point in ours(points):
        groups.setdefault(point["op"], []).append(point)
    cells, bad = [], set()
    for number, (name, cases) in enumerate(sorted(groups.items())):
        faced = [point for point in cases if point["peer"]]
        if faced and min(point["peer"] for point in faced) < LEAST:
            bad.add(number)
        stale = sum(point["age"] == freshness.STALE for point in cases)
        limits = [point for point in cases if point["limit"] and not point["doubtful"]]
        cells.append((name, str(len(cases)), *_three(limits, "limit"), *_three(faced, "peer"),
                      str(stale or "")))  # fmt: skip
    columns = ("operation", "cases", "% of limit", "5th", "worst", "which", "x peer", "5th", "worst",
               "which", "stale")  # fmt: skip
    return Table("Operations", columns, cells, frozenset(bad))


def worst(points: Iterable[Point]) -> Table:
    """The cases that are slowest beside the best peer."""
    faced = sorted((point for point in ours(points) if point["peer"]), key=lambda point: float(point["peer"]))[:WORST]
    cells = [
        (point["op"], f"{point['dtype']} {point['size']}", str(point["k"]), point["set"], f"{point['us']:g}",
         _number(point["peer"]), point["best"], point["kernel"], point["age"])
        for point in faced
    ]  # fmt: skip
    bad = frozenset(number for number, point in enumerate(faced) if point["peer"] < LEAST)
    columns = ("operation", "size", "K", "set", "us", "x peer", "best peer", "kernel", "age")
    return Table("Worst cases", columns, cells, bad)


def _number(value: float) -> str:
    """Two decimals, as far as three digits go."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _three(points: Sequence[Point], field: str) -> tuple[str, str, str, str]:
    if not points:
        return ("", "", "", "")
    values = sorted(point[field] for point in points)
    worst = min(points, key=lambda point: point[field])
    low = values[(len(values) - 1) // 20]
    texts = (_number(value) for value in (statistics.median(values), low, values[0]))
    return (*texts, f"{worst['dtype']} {worst['size']}")  # type: ignore[return-value]


def changes(points: Iterable[Point], earlier: Iterable[Point]) -> Table:
    """Cases of ours that both results have and whose times differ by more than both spreads and two per cent, the
    slowest first."""
    before = {point["case"]: point for point in earlier if point["who"] == OURS}
    pairs = [(point, before[point["case"]]) for point in points if point["who"] == OURS and point["case"] in before]
    moved = [(new["us"] / old["us"], new, old) for new, old in pairs if _differ(new, old)]
    moved.sort(key=lambda each: -each[0])
    cells = [
        (new["op"], f"{new['dtype']} {new['size']}", str(new["k"]), f"{old['us']:g}", f"{new['us']:g}", f"{ratio:.2f}")
        for ratio, new, old in moved
    ]
    slower = frozenset(number for number, (ratio, _, _) in enumerate(moved) if ratio > 1)
    title = f"Changes: {units.count(len(moved), 'case')} of {len(pairs)}"
    return Table(title, ("operation", "size", "K", "us before", "us now", "now / before"), cells, slower)


def _differ(new: Point, old: Point) -> bool:
    least = _NOISE + (new["spread"] + old["spread"]) / 100
    return not 1 / (1 + least) <= new["us"] / old["us"] <= 1 + least
