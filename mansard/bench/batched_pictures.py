"""The picture of batches of small products."""

from __future__ import annotations

from typing import Any

from .batched_summary import batches, is_square
from .plots import contenders, figure, style

_TICKS = (2, 4, 8, 16, 32, 64, 128)


def sizes(results: dict[str, Any]) -> Any:
    """Per cent of the copy bandwidth against the size of square products, a panel per dtype; A B + C has its own."""
    cases = {row["case"] for row in batches(results["rows"]) if is_square(row)}
    rows = [row for row in results["rows"] if row["case"] in cases and row["status"] == "ok"]
    panels = list(dict.fromkeys((row["accumulate"], row["dtype"]) for row in rows))
    if not panels:
        return None
    columns = 1 if len(panels) == 1 else 2
    lines = -(-len(panels) // columns)
    drawn, axes = figure(results, "Batches of n x n products: share of the copy bandwidth", lines, columns, (7.2, 3.9))
    widest = max(row["M"] for row in rows)
    for axis, (added, dtype) in zip(axes, panels, strict=False):
        inside = [row for row in rows if (row["accumulate"], row["dtype"]) == (added, dtype)]
        for number, name in enumerate(contenders(rows)):
            points = sorted((row["M"], row["percent_bandwidth"]) for row in inside if row["contender"] == name)
            if points:
                axis.plot(*zip(*points, strict=True), label=name, zorder=5 - number, **style(number))
        axis.axhline(100, color="#555555", linewidth=1)
        axis.set(title=f"{dtype}, {'A B + C' if added else 'A B'}", xlabel="n", ylabel="% of copy bandwidth",
                 xscale="log")  # fmt: skip
        axis.set_xticks([n for n in _TICKS if n <= widest], [str(n) for n in _TICKS if n <= widest])
        axis.minorticks_off()
        axis.set_ylim(0, max(108, axis.get_ylim()[1]))
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    axes[0].legend(loc="lower right", fontsize=9, framealpha=0.9)
    return drawn
