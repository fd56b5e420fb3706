"""Pictures of tall products: share of the limit against the width, roofline, few rows, what a call costs."""

from __future__ import annotations

from itertools import product
from typing import Any

from ..extension import Picture
from ..operations import TALL
from ..overhead import CHEAPEST
from ..plots import COLOURS, MARKERS, contenders, figure, lines, plain_ticks, rate_text, style
from ..rows import OURS, Row, operation_of
from ..summary import squares
from . import matmul_pictures


def percent(results: dict[str, Any]) -> Any:
    """The paper's figures 3 and 18: per cent of the roofline's limit against the width, one panel per dtype."""
    cases = {row["case"] for row in squares(results["rows"])}
    rows = [row for row in results["rows"] if row["case"] in cases and row["status"] == "ok"]
    dtypes = list(dict.fromkeys(row["dtype"] for row in rows))
    if not dtypes:
        return None
    columns = 1 if len(dtypes) == 1 else 2
    what = "A$^H$B" if results["family"] == "gram" else "A C, tall A"
    drawn, axes = figure(
        results, f"{what}: share of the roofline limit", -(-len(dtypes) // columns), columns, (7.2, 3.9)
    )
    for axis, dtype in zip(axes, dtypes, strict=False):
        inside = [row for row in rows if row["dtype"] == dtype]
        lines(axis, inside, contenders(rows), lambda row: row["M"], "percent_limit")
        axis.axhline(100, color="#555555", linewidth=1)
        axis.set(
            title=dtype,
            xlabel="M = N",
            ylabel="% of limit",
            ylim=(0, None),
            xlim=(0, 1 + max(row["M"] for row in rows)),
        )
        axis.set_ylim(0, max(108, axis.get_ylim()[1]))
        axis.set_xticks([1, *range(8, 1 + max(row["M"] for row in rows), 8)])
    for axis in axes[len(dtypes) :]:
        axis.set_visible(False)
    axes[0].legend(loc="lower right", fontsize=9, framealpha=0.9)
    return drawn


def _roofs(axis: Any, rows: list[Row], ceilings: dict[str, Any]) -> tuple[float, float]:
    """The slope of the read bandwidth and the flat roofs that these rows could meet; returns the range of x."""
    intensities = [row["intensity"] for row in rows]
    low, high = min(intensities) / 2, max(intensities) * 10
    roofs = {f"FMA {real}": rate for real, rate in ceilings["fma"].items()} | {
        f"tensor {real}": rate for real, rate in ceilings["tensor"].items()
    }
    used = {row["dtype"].replace("complex64", "float32").replace("complex128", "float64") for row in rows}
    shown = {name: rate for name, rate in roofs.items() if name.split()[1] in used or "tensor" in name}
    for name, rate in shown.items():
        axis.plot([max(low, rate / ceilings["read_bandwidth"]), high], [rate / 1e9] * 2, color="#333333", linewidth=1.3)
        below = any(rate < other < 1.4 * rate for other in shown.values())  # its label would run into the next roof's
        place = {"xytext": (-4, -3 if below else 3), "textcoords": "offset points", "va": "top" if below else "bottom"}
        axis.annotate(f"{name}, {rate_text(rate)}FLOP/s", (high, rate / 1e9), ha="right", fontsize=8, **place)
    top = max(shown.values()) / ceilings["read_bandwidth"]
    axis.plot(
        [low, top],
        [low * ceilings["read_bandwidth"] / 1e9, top * ceilings["read_bandwidth"] / 1e9],
        color="#333333",
        linewidth=1.3,
    )
    return low, high


def roofline(results: dict[str, Any]) -> Any:
    """The roofs of this device, and every case of ours out of cache under them; the best peer is a hollow point."""
    rows = [
        row
        for row in results["rows"]
        if row["mode"] == "device" and row["status"] == "ok" and row.get("gflops") and not row.get("pins")
        and operation_of(row) in (*TALL, "tsm2r")
    ]  # fmt: skip
    ceilings = results.get("ceilings")
    if not rows or not ceilings:
        return None
    drawn, axes = figure(results, "Roofline", size=(8.2, 5.2))
    axis = axes[0]
    low, high = _roofs(axis, rows, ceilings)
    for number, dtype in enumerate(dict.fromkeys(row["dtype"] for row in rows)):
        marker, colour = MARKERS[number], COLOURS[number]
        mine = [row for row in rows if row["dtype"] == dtype and row["contender"] == OURS]
        peers = [row for row in rows if row["dtype"] == dtype and row["contender"] != OURS]
        axis.scatter(
            [r["intensity"] for r in mine],
            [r["gflops"] for r in mine],
            s=22,
            marker=marker,
            color=colour,
            label=f"{OURS}, {dtype}",
            zorder=4,
        )
        hollow = {"s": 16, "facecolors": "none", "edgecolors": colour, "linewidths": 0.7, "alpha": 0.6, "zorder": 3}
        places = [r["intensity"] for r in peers], [r["gflops"] for r in peers]
        axis.scatter(*places, marker=marker, label=f"peers, {dtype}", **hollow)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="arithmetic intensity, FLOP per byte read",
        ylabel="GFLOP/s",
        xlim=(low, high),
    )
    axis.legend(fontsize=8, loc="lower right", ncols=2)
    return drawn


def overhead(results: dict[str, Any]) -> Any:
    """Cost of a call for the caller, as bars."""
    rows = [row for row in results["rows"] if row["mode"] == "host" and row.get("median")]
    if not rows:
        return None
    drawn, axes = figure(results, "What a call costs the caller", size=(8.0, 0.6 + 0.42 * len(rows)))
    axis = axes[0]
    names = [row["contender"] for row in rows][::-1]
    times = [row["median"] * 1e6 for row in rows][::-1]
    colours = [COLOURS[3] if name == CHEAPEST else COLOURS[1] if "@" in name else COLOURS[0] for name in names]
    bars = axis.barh(names, times, color=colours, height=0.65)
    axis.bar_label(bars, [f" {value:.1f}" for value in times], fontsize=9)
    axis.set(xlabel="microseconds per call", xlim=(0, 1.12 * max(times)))
    axis.grid(False, axis="y")
    return drawn


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
    plain_ticks(axis)


PICTURES = {
    "percent_of_limit": Picture("Share of the roofline limit against the width", percent),
    "few_rows": Picture("Few rows", few_rows),
    "overhead": Picture("What a call costs the caller", overhead),
    "roofline": Picture("Roofline", roofline),
    "skinny": Picture(
        "Large A times skinny B: share of the read bandwidth, and times the best peer", matmul_pictures.skinny
    ),
    "grid": Picture("matmul against the vendor's own call, shape by shape", matmul_pictures.grid),
}
