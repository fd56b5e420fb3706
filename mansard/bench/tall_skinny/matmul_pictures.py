"""Pictures of matmul's sets: the figures of Ernst et al. on A C and of TSM2, for our device, and the grid of shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..plots import COLOURS, figure, style
from ..rows import Row
from . import experiments


def skinny(results: dict[str, Any]) -> Any:
    """TSM2R: share of the bandwidth (above) and times the best peer (below) against the size, a line per width."""
    rows = experiments.of_set(results["rows"], "tsm2r")
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


def steps(results: dict[str, Any]) -> Any:
    """TSM2's figure 6: a bar per step, tensor cores and the best peer last."""
    rows = experiments.of_set(results["rows"], "steps")
    panels = list(dict.fromkeys((row["dtype"], row["M"]) for row in rows))
    if not panels:
        return None
    names = [*dict.fromkeys(map(experiments.step_of, rows)), "best peer"]
    drawn, axes = figure(results, "The steps of TSM2, column-major A", 1, len(panels), (4.8, 3.6))
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
        axis.set(title=f"{dtype}, m = k = {side}", ylabel="% of read bandwidth", ylim=(0, 108))
        axis.grid(False, axis="x")
    axes[0].legend(fontsize=8, ncols=2, loc="upper left")
    return drawn


def _share(rows: list[Row], n: int, step: str) -> float | None:
    """Per cent of the bandwidth of a step, or of the best peer."""
    if step == "best peer":
        met = [row["percent_bandwidth"] / row["x_peer"] for row in rows if row["N"] == n and row.get("x_peer")]
        return max(met, default=None)
    return next((row["percent_bandwidth"] for row in rows if row["N"] == n and experiments.step_of(row) == step), None)


def model(results: dict[str, Any]) -> Any:
    """The model's choice over the best that was tried, problem by problem."""
    found = experiments.choices(results["rows"])
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


def grid(results: dict[str, Any]) -> Any:
    """Every shape of the grid, slowest first: the vendor's time over ours, coloured by who answered."""
    rows = experiments.grid(results["rows"])
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
        axis.axhline(experiments.SLOWER, color="#555555", linestyle="--", linewidth=1)
        axis.set(title=mode, xlabel="shapes, slowest first", ylabel="x vendor", yscale="log")
        axis.legend(fontsize=8, loc="upper left")
    return drawn


def _experiment(results: dict[str, Any], name: str, title: str, of: Callable[[Row], Any]) -> Any:
    """A line per choice: the best of whatever else was varied, against the width."""
    best = experiments.best_by(results["rows"], name, of)
    if not best:
        return None
    drawn, axes = figure(results, title, size=(6.8, 3.8))
    for number, choice in enumerate(sorted(best, key=lambda each: (not str(each).isdigit(), len(str(each))))):
        found = best[choice]
        points = sorted((m, row["percent_bandwidth"]) for m, row in found.items())
        axes[0].plot(*zip(*points, strict=True), label=str(choice), **style(number))
    widths = sorted({m for found in best.values() for m in found})
    axes[0].axhline(100, color="#555555", linewidth=1)
    axes[0].set(xlabel="M = N", ylabel="% of bandwidth, best of the rest", ylim=(0, 108), xscale="log")
    axes[0].set_xticks(widths, widths)
    axes[0].minorticks_off()
    axes[0].legend(fontsize=8)
    return drawn


def source(results: dict[str, Any]) -> Any:
    """Figure 20 of Ernst et al."""
    return _experiment(results, "source", "threads kernel, float64: where C is read from", _pin("SOURCE"))


def unroll(results: dict[str, Any]) -> Any:
    """Figure 21."""
    return _experiment(results, "unroll", "threads kernel, float64: rows per thread at once", _pin("UNROLL"))


def threads(results: dict[str, Any]) -> Any:
    """Figure 22."""

    def count(row: Row) -> str:
        return str(row["pins"]["PER_ROW"]) if row["pins"]["PER_ROW"] < row["N"] else "N"

    return _experiment(results, "threads", "threads kernel, float64: threads per row", count)


def _pin(name: str) -> Callable[[Row], Any]:
    return lambda row: row["pins"][name]
