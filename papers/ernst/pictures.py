"""The figures of Ernst et al. for our device: tile size (16), mapping (15), reduction (19), and of A C where C is read
from (20), rows per thread (21), threads per row (22)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mansard.bench.plots import figure, plain_ticks, style
from mansard.bench.rows import Row, of_set

from ..found import experiment


def _pinned(results: dict[str, Any], name: str) -> list[Row]:
    """Right rows of an experiment with pinned parameters."""
    return [row for row in results["rows"] if row["set"] == name and row["status"] == "ok" and row.get("gflops")]


def tile_size(results: dict[str, Any]) -> Any:
    """Figure 16: speed against both tile sizes, with the lines of 128 and 256 registers by the paper's formula."""
    import numpy as np
    from matplotlib.patheffects import withStroke

    rows = _pinned(results, "tilesize")
    if not rows:
        return None
    best: dict[tuple[int, int], float] = {}
    for row in rows:
        place = (row["pins"]["TILE_M"], row["pins"]["TILE_N"])
        best[place] = max(best.get(place, 0.0), row["gflops"])
    widths_m, widths_n = (sorted({place[axis] for place in best}) for axis in (0, 1))
    grid = np.array([[best.get((m, n), np.nan) for m in widths_m] for n in widths_n])
    first = rows[0]
    title = f"tiled kernel, M = N = {first['M']}, {first['dtype']}: speed against tile size"
    drawn, axes = figure(results, title, size=(7.6, 6.2))
    axis = axes[0]
    image = axis.imshow(grid, origin="lower", cmap="viridis", vmin=0, aspect="auto")
    axis.set_xticks(range(len(widths_m)), widths_m)
    axis.set_yticks(range(len(widths_n)), widths_n)
    half = np.nanmax(grid) / 2
    for (y, x), value in np.ndenumerate(grid):
        text = f"{value / 1000:.1f}" if np.isfinite(value) else ""
        axis.text(x, y, text, ha="center", va="center", fontsize=7, color="white" if value < half else "black")
    m, n = np.array(widths_m, float), np.array(widths_n, float)
    registers = 2 * (np.outer(n, m) + 2 * (m[None, :] + n[:, None]) + 8)
    inside = [level for level in (128, 256) if registers.min() < level < registers.max()]
    if inside and min(grid.shape) > 1:
        dark = [withStroke(linewidth=3.2, foreground="#222222")]  # white alone would vanish on the bright cells
        lines = axis.contour(registers, levels=inside, colors="white", linewidths=1.6)
        lines.set_path_effects(dark)
        for label in axis.clabel(lines, fmt=lambda level: f"{level:.0f} registers", fontsize=9):
            label.set_path_effects(dark)
    axis.grid(False)
    axis.set(xlabel="TILE_M", ylabel="TILE_N")
    drawn.colorbar(image, ax=axis, label="GFLOP/s (cells: TFLOP/s, blank: not legal or not measured)")
    return drawn


_CHOICES = {  # leap-frogging, transposition
    (True, True): "leap-frog, transposed", (True, False): "leap-frog, plain",
    (False, True): "no leap-frog, transposed", (False, False): "no leap-frog, plain",
}  # fmt: skip


def mapping(results: dict[str, Any]) -> Any:
    """Figure 15: leap-frogging and transposition, each with its best tile, and what leap-frogging gains."""
    rows = [*_pinned(results, "mapping"), *_pinned(results, "mapping_search")]
    if not rows:
        return None
    title = f"tiled kernel, {rows[0]['dtype']}: leap-frogging and transposed mapping"
    drawn, (speed, gain) = figure(results, title, 1, 2, (6.0, 4.4))
    best: dict[tuple[bool, bool], dict[int, float]] = {choice: {} for choice in _CHOICES}
    for row in rows:
        held = best[row["pins"]["LEAPFROG"], row["pins"]["TRANSPOSED"]]
        held[row["M"]] = max(held.get(row["M"], 0.0), row["gflops"])
    for number, (choice, label) in enumerate(_CHOICES.items()):
        points = sorted(best[choice].items())
        speed.plot(*zip(*points, strict=True) if points else ((), ()), label=label, **style(number))
    for number, transposed in enumerate((True, False)):
        with_it, without = best[True, transposed], best[False, transposed]
        both = sorted(with_it.keys() & without.keys())
        label = "transposed mapping" if transposed else "plain mapping"
        gain.plot(both, [with_it[width] / without[width] for width in both], label=label, **style(number))
    limit = sorted({row["M"]: row["gflops"] * row["median"] / row["bound_seconds"] for row in rows}.items())
    speed.plot(*zip(*limit, strict=True), color="#555555", linestyle=(0, (6, 3)), linewidth=1, label="roofline")
    most = max(max(held.values(), default=0.0) for held in best.values())
    speed.set(xlabel="M = N", ylabel="GFLOP/s, best tile size", ylim=(0, 1.6 * most))
    speed.legend(fontsize=8, loc="upper right")
    gain.axhline(1, color="#555555", linewidth=1)
    gain.set(title="what leap-frogging gains", xlabel="M = N", ylabel="times as fast as without", ylim=(0, None))
    gain.legend(fontsize=8)
    return drawn


def reduction(results: dict[str, Any]) -> Any:
    """Figure 19: what remains of the speed with each reduction, against the number of rows."""
    rows = _pinned(results, "reduction")
    widths = sorted({row["M"] for row in rows})
    if not widths:
        return None
    drawn, axes = figure(results, "tiled kernel, float64: cost of the reduction", 2, len(widths), (6.4, 3.4))
    for number, reduce in enumerate(dict.fromkeys(row["pins"]["REDUCE"] for row in rows)):
        for column, m in enumerate(widths):
            found = sorted(
                (row["K"], row["median"], row["percent_bandwidth"])
                for row in rows
                if row["M"] == m and row["pins"]["REDUCE"] == reduce
            )
            if found:
                counts, times, shares = zip(*found, strict=True)
                axes[column].plot(counts, [1e6 * value for value in times], label=reduce, **style(number))
                axes[len(widths) + column].plot(counts, shares, label=reduce, **style(number))
    for column, m in enumerate(widths):
        bound = sorted({(row["K"], 1e6 * row["bound_seconds"]) for row in rows if row["M"] == m})
        axes[column].plot(
            *zip(*bound, strict=True), color="#555555", linestyle=(0, (6, 3)), linewidth=1, label="roofline"
        )
        axes[column].set(title=f"M = N = {m}", xscale="log", yscale="log", xlabel="K", ylabel="microseconds in a graph")
        plain_ticks(axes[column])
        lowest = min(row["median"] for row in rows if row["M"] == m)
        axes[column].set_ylim(bottom=5e5 * lowest)
        axes[len(widths) + column].set(xscale="log", xlabel="K", ylabel="% of read bandwidth", ylim=(0, None))
        axes[len(widths) + column].axhline(100, color="#555555", linewidth=1)
    axes[0].legend(fontsize=9)
    return drawn


def best_by(rows: Iterable[Row], name: str, of: Callable[[Row], Any]) -> dict[Any, dict[int, Row]]:
    """Fastest row of an experiment with pinned parameters, by the value of `of`, then by width."""
    best: dict[Any, dict[int, Row]] = {}
    for row in of_set(rows, name):
        held = best.setdefault(of(row), {})
        if row["M"] not in held or row["median"] < held[row["M"]]["median"]:
            held[row["M"]] = row
    return best


def _experiment(results: dict[str, Any], name: str, title: str, of: Callable[[Row], Any]) -> Any:
    """A line per choice: the best of whatever else was varied, against the width."""
    best = best_by(results["rows"], name, of)
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
    """Figure 21 of Ernst et al."""
    return _experiment(results, "unroll", "threads kernel, float64: rows per thread at once", _pin("UNROLL"))


def threads(results: dict[str, Any]) -> Any:
    """Figure 22 of Ernst et al."""

    def count(row: Row) -> str:
        return str(row["pins"]["PER_ROW"]) if row["pins"]["PER_ROW"] < row["N"] else "N"

    return _experiment(results, "threads", "threads kernel, float64: threads per row", count)


def _pin(name: str) -> Callable[[Row], Any]:
    return lambda row: row["pins"][name]


def occupancy() -> Any:
    """Figure 17: speed of the kernel for A^H B and of two altered ones by resident warps, a panel per tile."""
    found = [row for row in experiment("ernst-occupancy", what="probe") if row["right"]]
    about = {"environment": {"device": found[0]["device"], "date": max(row["date"] for row in found)}}
    tiles = sorted({tuple(row["tile"]) for row in found})
    drawn, axes = figure(about, "Tiled kernel, float64: what more warps would bring", 1, len(tiles), (6.0, 3.8))
    for axis, tile in zip(axes, tiles, strict=True):
        inside = [row for row in found if tuple(row["tile"]) == tile]
        for number, kind in enumerate(dict.fromkeys(row["kind"] for row in inside)):
            points = sorted((row["warps"], row["gflops"]) for row in inside if row["kind"] == kind)
            axis.plot(*zip(*points, strict=True), label=kind, **style(number))
        axis.set(title=f"tile {tile[0]} x {tile[1]}", xlabel="warps launched per multiprocessor", ylabel="GFLOP/s",
                 ylim=(0, None))  # fmt: skip
    axes[0].legend(fontsize=8)
    return drawn


PAGE = {"occupancy": occupancy}  # pictures of the page alone, which need no results of a benchmark
