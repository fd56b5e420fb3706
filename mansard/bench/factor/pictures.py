"""Pictures of factorizations: share of the copy bandwidth and times the best peer against the size."""

from __future__ import annotations

from typing import Any

from ..extension import Picture
from ..plots import contenders, every_contender, grid, legend, lines, percent_axis, sizes_below, style
from ..rows import Row, operation_of
from .operations import FACTORS
from .summary import NAMES, factors

_ASKED = {"color": "#888888", "linewidth": 1, "drawstyle": "steps-mid", "linestyle": ":"}


def panels_of(rows: list[Row]) -> list[str]:
    found = {operation_of(row) for row in rows}
    return [operation for operation in FACTORS if operation in found]


def share(results: dict[str, Any]) -> Any:
    """Per cent of the copy bandwidth, a panel per operation, float64."""
    mine = [row for row in factors(results["rows"]) if row["dtype"] == "float64"]
    rows, panels = every_contender(results, mine), panels_of(mine)
    if not panels:
        return None
    drawn, axes = grid(results, "Factorizations of batches, float64: share of the copy bandwidth", len(panels))
    for axis, operation in zip(axes, panels, strict=True):
        inside = [row for row in rows if operation_of(row) == operation]
        lines(axis, inside, contenders(rows), lambda row: row["M"], "percent_copy")
        _asked(axis, factors(mine, operation), "percent_copy")
        sizes_below(axis, (row["M"] for row in inside))
        axis.set(title=NAMES[operation], ylabel="% of copy bandwidth")
        percent_axis(axis)
    legend(axes, loc="upper right")
    return drawn


def _asked(axis: Any, rows: list[Row], metric: str) -> None:
    """The targets that the rows were compared with, as a line of steps."""
    points = sorted((row["M"], row["wanted"][metric]) for row in rows if metric in row.get("wanted", {}))
    if points:
        axis.plot(*zip(*points, strict=True), label="target", **_ASKED)


def speedup(results: dict[str, Any]) -> Any:
    """Times the best peer, a panel per operation, float64."""
    mine = [row for row in factors(results["rows"]) if row["dtype"] == "float64" and row.get("x_peer")]
    panels = panels_of(mine)
    if not panels:
        return None
    drawn, axes = grid(results, "Factorizations of batches, float64: times the best peer", len(panels))
    peers = sorted({row["best_peer"] for row in mine})
    for axis, operation in zip(axes, panels, strict=True):
        inside = factors(mine, operation)
        points = sorted((row["M"], row["x_peer"]) for row in inside)
        axis.plot(*zip(*points, strict=True), color="#BBBBBB", linewidth=1, zorder=2)
        for number, name in enumerate(peers, start=1):
            faced = [(row["M"], row["x_peer"]) for row in inside if row["best_peer"] == name]
            look = style(number) | {"linestyle": "none"}
            axis.plot(*(zip(*faced, strict=True) if faced else ((), ())), label=f"over {name}", zorder=4, **look)
        _asked(axis, inside, "x_peer")
        axis.axhline(1, color="#555555", linewidth=1)
        sizes_below(axis, (row["M"] for row in inside))
        axis.set(title=NAMES[operation], ylabel="times the best peer", yscale="log")
    legend(axes, loc="upper right")
    return drawn


def dtypes(results: dict[str, Any]) -> Any:
    """Picture of our own rows, a line per dtype."""
    mine = factors(results["rows"])
    names = list(dict.fromkeys(row["dtype"] for row in mine))
    if len(names) < 2:
        return None
    panels = panels_of(mine)
    drawn, axes = grid(results, "Factorizations of batches: share of the copy bandwidth by dtype", len(panels))
    for axis, operation in zip(axes, panels, strict=True):
        inside = factors(mine, operation)
        for number, dtype in enumerate(names):
            points = sorted((row["M"], row["percent_copy"]) for row in inside if row["dtype"] == dtype)
            axis.plot(*(zip(*points, strict=True) if points else ((), ())), label=dtype, **style(number))
        sizes_below(axis, (row["M"] for row in inside))
        axis.set(title=NAMES[operation], ylabel="% of copy bandwidth")
        percent_axis(axis)
    legend(axes, loc="upper right")
    return drawn


PICTURES = {
    "factor": Picture("Factorizations of batches: share of the copy bandwidth against the size", share),
    "factor_speedup": Picture("Factorizations of batches: times the best peer", speedup),
    "factor_dtypes": Picture("Factorizations of batches: share of the copy bandwidth of all dtypes", dtypes),
}
