"""Pictures of sparse products and powers: share of the bound per matrix, gains over p."""

from __future__ import annotations

from typing import Any

from ..extension import Picture
from ..plots import COLOURS, figure, grid, style
from ..rows import OURS, Row
from .calls import EXECUTIONS, FORMS, INT32
from .gains import by_case, gain, libraries, sparse

_BAR = 0.8  # of the distance between two matrices
MODEL = {"color": "#555555", "linestyle": (0, (6, 3)), "linewidth": 1.2}


def bound(results: dict[str, Any]) -> Any:
    """Per cent of the bound with 32-bit columns, a group of bars per matrix: shorter columns may exceed it."""
    rows = [row for row in sparse(results["rows"], "spmv", N=1) if row["dtype"] == "float64"]
    cases = by_case(results["rows"])
    if not rows:
        return None
    names = [OURS, *FORMS, *libraries(results["rows"])]
    names = [name for name in names if any(name in cases[row["case"]] for row in rows)]
    drawn, axes = figure(results, "Sparse products: share of the bound with 32-bit columns", size=(13.0, 4.8))
    axis, width = axes[0], _BAR / len(names)
    for number, name in enumerate(names):
        places, shares = [], []
        for place, row in enumerate(rows):
            found = cases[row["case"]]
            if name in found:
                least = found.get(INT32, row)["bound_seconds"]
                places.append(place - _BAR / 2 + (number + 0.5) * width)
                shares.append(100 * least / found[name]["median"])
        axis.bar(places, shares, 0.92 * width, label=name, color=COLOURS[number % len(COLOURS)])
    axis.axhline(100, color="#555555", linewidth=1)
    axis.set_xticks(range(len(rows)), [row["form"] for row in rows])
    axis.set(ylabel="% of the bound", xlim=(-0.6, len(rows) - 0.4))
    axis.grid(False, axis="x")
    axis.legend(fontsize=8, ncols=len(names), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return drawn


def speedup(results: dict[str, Any]) -> Any:
    """Times our own products against p, a panel per matrix."""
    rows, cases = sparse(results["rows"], "powers"), by_case(results["rows"])
    panels = list(dict.fromkeys(row["form"] for row in rows))
    if not panels:
        return None
    drawn, axes = grid(results, "Powers over as many products of our own", len(panels), 4, (4.0, 3.1))
    names = [OURS, *EXECUTIONS, *libraries(results["rows"])]
    for axis, matrix in zip(axes, panels, strict=True):
        inside = sorted((row for row in rows if row["form"] == matrix), key=lambda row: row["inner"])
        for number, name in enumerate(names):
            points = [(row["inner"], gain(cases[row["case"]], name)) for row in inside]
            points = [point for point in points if point[1]]
            if points:
                axis.plot(*zip(*points, strict=True), label=name, zorder=9 - number, **style(number))
        _model(axis, inside)
        axis.axhline(1, color="#555555", linewidth=0.8)
        axis.set(title=matrix, xlabel="p", ylabel="times own products", ylim=(0, None))
        axis.set_xticks([row["inner"] for row in inside])
    most = max(axes, key=lambda axis: len(axis.lines))
    drawn.legend(*most.get_legend_handles_labels(), loc="outside right upper", fontsize=9, frameon=False)
    return drawn


def _model(axis: Any, rows: list[Row]) -> None:
    points = [(row["inner"], row["predicted_speedup"]) for row in rows if row.get("predicted_speedup")]
    if points:
        axis.plot(*zip(*points, strict=True), label="equation 4.8", **MODEL)


PICTURES = {
    "spmv": Picture("Sparse products: share of the model's bound", bound),
    "powers": Picture("Powers over as many products of our own", speedup),
}
