"""Pictures of energy: time against joules of configurations, and power over time. Nothing is drawn without windows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .energy_sets import TRADEOFF
from .extension import Picture
from .plots import COLOURS, MARKERS, grid
from .rows import Row, operation_of

_TITLE = "Time against energy: configurations of one problem"


def tradeoff(results: dict[str, Any]) -> Any:
    """Joules against microseconds of pinned configurations, a panel per operation, a mark per variant."""
    rows = [row for row in results["rows"] if row["set"] == TRADEOFF and row["status"] == "ok" and row.get("joules")]
    operations = list(dict.fromkeys(map(operation_of, rows)))
    if not operations:
        return None
    drawn, axes = grid(results, _TITLE, len(operations), most=3, size=(5.4, 4.4))
    for axis, operation in zip(axes, operations, strict=True):
        _panel(axis, operation, [row for row in rows if operation_of(row) == operation])
    return drawn


def _panel(axis: Any, operation: str, rows: list[Row]) -> None:
    """One operation: marks by variant, a ring around the fastest and the one with fewest joules."""
    for number, variant in enumerate(dict.fromkeys(row["pins"]["VARIANT"] for row in rows)):
        mine = [row for row in rows if row["pins"]["VARIANT"] == variant]
        points = [(row["call_seconds"] * 1e6, row["joules"] * 1e3) for row in mine]
        errors = [row["joules"] * 1e3 * row["joules_spread"] for row in mine]
        axis.errorbar(*zip(*points, strict=True), yerr=errors, label=variant, linestyle="none",
                      color=COLOURS[number % len(COLOURS)], marker=MARKERS[number % len(MARKERS)])  # fmt: skip
    rings = {"fastest": min(rows, key=lambda row: row["call_seconds"]), "least energy": min(rows, key=_joules)}
    for size, (name, row) in zip((13, 19), rings.items(), strict=True):
        axis.plot(row["call_seconds"] * 1e6, row["joules"] * 1e3, "o", markersize=size, fillstyle="none",
                  color="#555555" if size == 13 else "#009E73", label=name)  # fmt: skip
    axis.set(title=f"{operation} {rows[0]['M']} x {rows[0]['N']}, K = {rows[0]['K']}", xlabel="us per call",
             ylabel="mJ per call, net of idle")  # fmt: skip
    axis.legend(fontsize=8)


def _joules(row: Row) -> float:
    return float(row["joules"])


def power(axis: Any, rows: Iterable[Row], calls: float = 0.0) -> None:
    """Draw power over time, a line per row and part, each until its contender has done `calls` calls (0: all)."""
    for number, row in enumerate(rows):
        used, end = row["energy"], calls * row["call_seconds"] or float("inf")
        for part, curve in used["trials"][0]["power"].items():
            kept = [point for point in curve if point[0] <= end] or curve[:1]
            label = f"{row['contender']}, {part}: {row['gross_joules']:.3g} J per call"
            axis.plot(*zip(*kept, strict=True), label=label, color=COLOURS[number % len(COLOURS)],
                      linestyle="-" if part == next(iter(used["idle"])) else ":")  # fmt: skip
        axis.axhline(row["idle_watts"], color="#888888", linewidth=0.8, linestyle="--")
    axis.set(xlabel="s", ylabel="W", ylim=(0, None))
    axis.legend(fontsize=8)


def together(documents: dict[str, dict[str, Any]], folder: Path) -> Path | None:
    """One picture of the trade-offs of several reports, in their common folder; None where there are fewer than two."""
    found = [one for one in documents.values() if any(row["set"] == TRADEOFF for row in one["rows"])]
    if len(found) < 2:
        return None
    drawn = tradeoff(found[0] | {"rows": [row for one in found for row in one["rows"]]})
    if drawn is None:
        return None
    drawn.savefig(folder / f"{TRADEOFF}.png", dpi=130)
    return folder / f"{TRADEOFF}.png"


PICTURES = {TRADEOFF: Picture(_TITLE, tradeoff)}
