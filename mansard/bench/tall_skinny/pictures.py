"""The paper's experiments, drawn for our device: tile size (16), mapping (15), reduction (19), and few rows."""

from __future__ import annotations

from itertools import product
from typing import Any

from ..operations import TALL
from ..plots import contenders, figure, style
from ..rows import Row, operation_of


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


def mapping(results: dict[str, Any]) -> Any:
    """Figure 15: the four combinations of leap-frogging and transposition, each with its best tile."""
    rows = _pinned(results, "mapping")
    if not rows:
        return None
    drawn, axes = figure(results, f"tiled kernel, {rows[0]['dtype']}: leap-frogging and transposed mapping")
    axis = axes[0]
    choices = ((True, True), (True, False), (False, True), (False, False))
    for number, (leapfrog, transposed) in enumerate(choices):
        best: dict[int, float] = {}
        for row in rows:
            if (row["pins"]["LEAPFROG"], row["pins"]["TRANSPOSED"]) == (leapfrog, transposed):
                best[row["M"]] = max(best.get(row["M"], 0.0), row["gflops"])
        label = f"{'leap-frog' if leapfrog else 'no leap-frog'}, {'transposed' if transposed else 'plain'}"
        axis.plot(*zip(*sorted(best.items()), strict=True) if best else ((), ()), label=label, **style(number))
    limit = {row["M"]: row["gflops"] * row["median"] / row["bound_seconds"] for row in rows}
    axis.plot(
        *zip(*sorted(limit.items()), strict=True), color="#555555", linestyle=(0, (6, 3)), linewidth=1, label="roofline"
    )
    axis.set(xlabel="M = N", ylabel="GFLOP/s, best tile size", ylim=(0, None))
    axis.legend(fontsize=9)
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
        _plain_ticks(axes[column])
        lowest = min(row["median"] for row in rows if row["M"] == m)
        axes[column].set_ylim(bottom=5e5 * lowest)
        axes[len(widths) + column].set(xscale="log", xlabel="K", ylabel="% of read bandwidth", ylim=(0, None))
        axes[len(widths) + column].axhline(100, color="#555555", linewidth=1)
    axes[0].legend(fontsize=9)
    return drawn


def _plain_ticks(axis: Any) -> None:
    """5, 10, 20, 50, ... instead of powers: the range is a decade or two."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def few_rows(results: dict[str, Any]) -> Any:
    """Microseconds per call against K: inside a graph and from Python; hollow points have operands in the cache."""
    rows = [
        row
        for row in results["rows"]
        if row["mode"] in ("graph", "eager") and row["status"] == "ok" and not row.get("pins")
        and operation_of(row) in TALL
    ]  # fmt: skip
    if not rows:
        return None
    modes = sorted({(row["dtype"], row["mode"]) for row in rows}, reverse=True)
    widths = sorted({row["M"] for row in rows})
    title = "Few rows: time of a call (hollow: operands in the cache)"
    drawn, axes = figure(results, title, len(modes), len(widths), (4.6, 3.4))
    for axis, ((dtype, mode), m) in zip(axes, product(modes, widths), strict=True):
        inside = [row for row in rows if (row["dtype"], row["mode"], row["M"]) == (dtype, mode, m)]
        _few_rows_panel(axis, inside, contenders(rows))
        axis.set_title(f"{dtype}, {'in a graph' if mode == 'graph' else 'from Python'}, M = N = {m}")
    max(axes, key=lambda axis: len(axis.lines)).legend(fontsize=8)  # a graph has fewer contenders
    return drawn


def _few_rows_panel(axis: Any, rows: list[Row], names: list[str]) -> None:
    for (number, name), temperature in product(enumerate(names), ("cold", "hot")):
        points = sorted(
            (row["K"], 1e6 * row["median"])
            for row in rows
            if row["contender"] == name and row["temperature"] == temperature
        )
        if points:
            hot = {"label": name} if temperature == "cold" else {"markerfacecolor": "white", "alpha": 0.65}
            axis.plot(*zip(*points, strict=True), zorder=5 - number, **(style(number) | hot))
    axis.set(xscale="log", yscale="log", xlabel="K", ylabel="microseconds")
    _plain_ticks(axis)
