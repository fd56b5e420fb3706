"""Pictures of matmul's sets: large times skinny, and the grid of shapes."""

from __future__ import annotations

from typing import Any

from ..plots import COLOURS, figure, style
from ..rows import of_set
from .matmul_summary import SLOWER, grid_rows


def skinny(results: dict[str, Any]) -> Any:
    """TSM2R: share of the bandwidth (above) and times the best peer (below) against the size, a line per width."""
    rows = of_set(results["rows"], "tsm2r")
    panels = list(dict.fromkeys((row["dtype"], row["layout"]) for row in rows))
    if not panels:
        return None
    drawn, axes = figure(results, "Large A times skinny B", 2, len(panels), (4.6, 3.4))
    for column, (dtype, layout) in enumerate(panels):
        inside = [row for row in rows if (row["dtype"], row["layout"]) == (dtype, layout)]
        for number, n in enumerate(sorted({row["N"] for row in inside})):
            found = sorted((row["M"], row["percent_bandwidth"], row.get("x_peer")) for row in inside if row["N"] == n)
            places = [place for place, _, _ in found]
            axes[column].plot(places, [share for _, share, _ in found], label=f"n = {n}", **style(number))
            ratios = [(place, ratio) for place, _, ratio in found if ratio]
            if ratios:
                axes[len(panels) + column].plot(*zip(*ratios, strict=True), label=f"n = {n}", **style(number))
        axes[column].axhline(100, color="#555555", linewidth=1)
        words = {"row": "row-major", "col": "column-major"}[layout]
        axes[column].set(title=f"{dtype}, {words}", xlabel="m = k", ylabel="% of read bandwidth", ylim=(0, 108))
        axes[len(panels) + column].axhline(1, color="#555555", linewidth=1)
        axes[len(panels) + column].set(xlabel="m = k", ylabel="x best peer", ylim=(0, None))
    axes[0].legend(fontsize=8, ncols=2, loc="lower right")
    return drawn


def grid(results: dict[str, Any]) -> Any:
    """Every shape of the grid, slowest first: the vendor's time over ours, coloured by the family that answered."""
    rows = grid_rows(results["rows"])
    panels = sorted({row["mode"] for row in rows})
    if not panels:
        return None
    drawn, axes = figure(results, "matmul: the vendor's own call over ours", 1, len(panels), (6.4, 4.0))
    families = sorted({row.get("family", "") for row in rows})
    for axis, mode in zip(axes, panels, strict=True):
        places = list(enumerate(row for row in rows if row["mode"] == mode))
        for number, family in enumerate(families):
            mine = [(place, row["x_peer"]) for place, row in places if row.get("family", "") == family]
            if mine:
                axis.scatter(*zip(*mine, strict=True), s=9, color=COLOURS[number % len(COLOURS)], label=family)
        axis.axhline(1, color="#555555", linewidth=1)
        axis.axhline(SLOWER, color="#555555", linestyle="--", linewidth=1)
        axis.set(title=mode, xlabel="shapes, slowest first", ylabel="x vendor", yscale="log")
        axis.legend(fontsize=8, loc="upper left")
    return drawn


