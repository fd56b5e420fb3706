"""Pictures of factorizations: share of the copy bandwidth and times the best peer against the size, and the steps."""

from __future__ import annotations

from typing import Any

from ...operations.factor.blocked import HOW
from ..batched.pictures import every_contender, grid, legend, lines, sizes_below
from ..batched.pictures import share as hundred
from ..plots import contenders, figure, style
from ..rows import OURS, Row, operation_of
from .operations import FACTORS
from .summary import NAMES, factors
from .targets import target_of

_ASKED = {"color": "#888888", "linewidth": 1, "drawstyle": "steps-mid", "linestyle": ":"}


def _panels(rows: list[Row]) -> list[str]:
    found = {operation_of(row) for row in rows}
    return [operation for operation in FACTORS if operation in found]


def share(results: dict[str, Any]) -> Any:
    """Per cent of the copy bandwidth, a panel per operation, float64."""
    mine = [row for row in factors(results["rows"]) if row["dtype"] == "float64"]
    rows, panels = every_contender(results, mine), _panels(mine)
    if not panels:
        return None
    drawn, axes = grid(results, "Factorizations of batches, float64: share of the copy bandwidth", len(panels))
    for axis, operation in zip(axes, panels, strict=True):
        inside = [row for row in rows if operation_of(row) == operation]
        lines(axis, inside, contenders(rows), lambda row: row["M"], "percent_copy")
        _asked(results, axis, factors(mine, operation), "percent")
        sizes_below(axis, (row["M"] for row in inside))
        axis.set(title=NAMES[operation], ylabel="% of copy bandwidth")
        hundred(axis)
    legend(axes, loc="upper right")
    return drawn


def _asked(results: dict[str, Any], axis: Any, rows: list[Row], what: str) -> None:
    """The targets, as a line of steps; they are a GPU's."""
    if results["environment"].get("backend") != "cuda":
        return
    targets = ((row["M"], target_of(row)) for row in rows)
    points = sorted((n, getattr(target, what)) for n, target in targets if target and getattr(target, what))
    if points:
        axis.plot(*zip(*points, strict=True), label="target", **_ASKED)


def speedup(results: dict[str, Any]) -> Any:
    """Times the best peer, a panel per operation, float64."""
    mine = [row for row in factors(results["rows"]) if row["dtype"] == "float64" and row.get("x_peer")]
    panels = _panels(mine)
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
        _asked(results, axis, inside, "times")
        axis.axhline(1, color="#555555", linewidth=1)
        sizes_below(axis, (row["M"] for row in inside))
        axis.set(title=NAMES[operation], ylabel="times the best peer", yscale="log")
    legend(axes, loc="upper right")
    return drawn


def dtypes(results: dict[str, Any]) -> Any:
    """Ours alone, a line per dtype."""
    mine = factors(results["rows"])
    names = list(dict.fromkeys(row["dtype"] for row in mine))
    if len(names) < 2:
        return None
    panels = _panels(mine)
    drawn, axes = grid(results, "Factorizations of batches: share of the copy bandwidth by dtype", len(panels))
    for axis, operation in zip(axes, panels, strict=True):
        inside = factors(mine, operation)
        for number, dtype in enumerate(names):
            points = sorted((row["M"], row["percent_copy"]) for row in inside if row["dtype"] == dtype)
            axis.plot(*(zip(*points, strict=True) if points else ((), ())), label=dtype, **style(number))
        sizes_below(axis, (row["M"] for row in inside))
        axis.set(title=NAMES[operation], ylabel="% of copy bandwidth")
        hundred(axis)
    legend(axes, loc="upper right")
    return drawn


def steps(results: dict[str, Any]) -> Any:
    """Dong's figures 4.1 to 4.3: speed of blocked factorizations, step by step, and of the fastest peer."""
    rows = [row for row in results["rows"] if row["set"] == "steps" and operation_of(row) in FACTORS]
    rows = [row for row in rows if row["status"] == "ok"]
    panels = _panels(rows)
    if not panels:
        return None
    drawn, axes = figure(results, "Factorizations of 2,000 matrices, float64, step by step", 1, len(panels), (5.4, 4.4))
    for axis, operation in zip(axes, panels, strict=True):
        inside = [row for row in rows if operation_of(row) == operation]
        for number, form in enumerate(("", *HOW)):
            points = sorted((r["M"], r["gflops"]) for r in inside if r["contender"] == OURS and r["form"] == form)
            if points:
                axis.plot(*zip(*points, strict=True), label=form or "chosen", **style(number))
        best: dict[int, float] = {}
        for row in inside:
            if row["contender"] != OURS:
                best[row["M"]] = max(best.get(row["M"], 0.0), row["gflops"])
        if best:
            axis.plot(*zip(*sorted(best.items()), strict=True), label="best peer", color="#555555", linestyle="--")
        axis.set(title=NAMES[operation], xlabel="n", ylabel="GFLOP/s", yscale="log")
    legend(axes, loc="lower right")
    return drawn
