"""Pictures of TSM2's experiments: its steps, and the speed of its model's choices."""

from __future__ import annotations

from typing import Any

from mansard.bench.plots import COLOURS, figure, grid, style
from mansard.bench.rows import Row, of_set

from ..found import experiment, median
from .choices import choices, step_of
from .tsm2l import TILES


def steps(results: dict[str, Any]) -> Any:
    """TSM2's figure 6: a bar per step, tensor cores and the best peer last."""
    rows = of_set(results["rows"], "steps")
    panels = list(dict.fromkeys((row["dtype"], row["M"]) for row in rows))
    if not panels:
        return None
    names = [*dict.fromkeys(map(step_of, rows)), "best peer"]
    drawn, axes = grid(results, "The steps of TSM2, column-major A", len(panels), 2, (5.4, 3.6))
    for axis, (dtype, side) in zip(axes, panels, strict=True):
        inside = [row for row in rows if (row["dtype"], row["M"]) == (dtype, side)]
        widths = sorted({row["N"] for row in inside})
        for number, name in enumerate(names):
            places, heights = [], []
            for group, n in enumerate(widths):
                share = _share(inside, n, name)
                if share is not None:
                    places.append(group + (number - len(names) / 2 + 0.5) * 0.8 / len(names))
                    heights.append(share)
            axis.bar(places, heights, 0.8 / len(names), label=name, color=COLOURS[number % len(COLOURS)])
        axis.set_xticks(range(len(widths)), [f"n = {n}" for n in widths])
        axis.axhline(100, color="#555555", linewidth=1)
        axis.set(title=f"{dtype}, m = k = {side}", ylabel="% of read bandwidth", ylim=(0, 135))
        axis.grid(False, axis="x")
    axes[0].legend(fontsize=8, ncols=3, loc="upper left")
    return drawn


def _share(rows: list[Row], n: int, step: str) -> float | None:
    """Per cent of the bandwidth of a step, or of the best peer."""
    if step == "best peer":
        met = [row["percent_bandwidth"] / row["x_peer"] for row in rows if row["N"] == n and row.get("x_peer")]
        return max(met, default=None)
    return next((row["percent_bandwidth"] for row in rows if row["N"] == n and step_of(row) == step), None)


def model(results: dict[str, Any]) -> Any:
    """The model's choice over the best that was tried, problem by problem."""
    found = choices(results["rows"])
    if not found:
        return None
    drawn, axes = figure(results, "TSM2's model: speed of its choice over the best", size=(7.2, 3.6))
    axis = axes[0]
    for number, dtype in enumerate(dict.fromkeys(each.chosen["dtype"] for each in found)):
        chosen = [(place, each) for place, each in enumerate(found) if each.chosen["dtype"] == dtype]
        shares = [100 * each.share for _, each in chosen]
        axis.bar([place for place, _ in chosen], shares, 0.8, label=dtype, color=COLOURS[number])
    names = [f"{each.chosen['M']}, {each.chosen['N']}" for each in found]
    axis.set_xticks(range(len(found)), names, rotation=90, fontsize=7)
    axis.axhline(90, color="#555555", linestyle="--", linewidth=1)
    axis.set(xlabel="m = k, n", ylabel="% of the best", ylim=(0, 112))
    axis.grid(False, axis="x")
    axis.legend(fontsize=8, ncols=2, loc="lower right")
    return drawn


def tiles() -> Any:
    """TSM2X's figure 5: algorithms 6 and 7 by tiles per thread, a panel per dtype and algorithm, a line per height."""
    found = [row for row in experiment("tsm2l") if row["right"] and row["n"] == 16]
    about = {"environment": {"device": found[0]["device"], "date": max(row["date"] for row in found)}}
    panels = [(algorithm, dtype) for algorithm in (6, 7) for dtype in ("float32", "float64")]
    drawn, axes = grid(about, "Tiles per thread, k = n = 16 (TSM2X, figure 5)", len(panels), 4, (4.4, 3.4))
    for axis, (algorithm, dtype) in zip(axes, panels, strict=True):
        inside = [row for row in found if (row["algorithm"], row["dtype"]) == (algorithm, dtype)]
        for number, rows in enumerate(sorted({row["rows"] for row in inside}, reverse=True)):
            points = sorted((row["tcf"], row["bytes"] / median(row["seconds"]) / 1e9) for row in inside
                            if row["rows"] == rows)  # fmt: skip
            axis.plot(*zip(*points, strict=True), label=f"{rows:,} rows", **style(number))
        axis.set(title=f"algorithm {algorithm}, {dtype}", xlabel="tiles per thread (tcf)", ylabel="GB/s", xscale="log",
                 ylim=(0, None))  # fmt: skip
        axis.set_xticks(TILES, map(str, TILES))
        axis.minorticks_off()
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    return drawn


PAGE = {"tiles": tiles}  # pictures of the page alone, which need no results of a benchmark
