"""The pictures of a report. Each one is a function from results to a figure, or None where its rows are missing.

Colours are Okabe and Ito's, distinguishable by all kinds of colour vision; lines differ in marker and dash as well.
matplotlib is imported when a picture is drawn: without it a report has tables only, and says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .operations import TALL
from .overhead import CHEAPEST
from .rows import OURS, Row, operation_of
from .summary import squares

COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_NARROW = 8.0  # inches: a foot with two rates takes two lines
_DASHES = ("-", "--", "-.", ":")


def style(number: int) -> dict[str, Any]:
    """Colour, marker and dash of the number-th contender."""
    return {
        "color": COLOURS[number % len(COLOURS)], "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _DASHES[number % len(_DASHES)], "markersize": 4.5 if number else 5,
        "linewidth": 1.2 if number else 1.8,
    }  # fmt: skip


def figure(
    results: dict[str, Any], title: str, rows: int = 1, columns: int = 1, size: tuple[float, float] = (7.2, 4.4)
) -> tuple[Any, Any]:
    """An empty figure whose foot names device, date and ceilings, and its axes as a flat list."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False).flatten()
    environment, ceilings = results["environment"], results.get("ceilings") or {}
    drawn.suptitle(title, fontsize=13, fontweight="bold")
    foot = f"{environment['device']}, {environment['date'][:10]}"
    if ceilings:
        both = ("read", "copy") if results.get("family") in ("batched", "factor", "powers") else ("read",)
        rates = ", ".join(f"{which} bandwidth {_rate(ceilings[f'{which}_bandwidth'])}B/s" for which in both)
        foot += "\n" if len(both) > 1 and size[0] * columns < _NARROW else ", "
        foot += f"{rates} ({ceilings['origin'].split(':')[0]})"
    drawn.supxlabel(foot, fontsize=8, color="#444444")
    for axis in axes:
        axis.grid(True, color="#DDDDDD", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return drawn, axes


def _rate(value: float) -> str:
    return f"{value / 1e12:.2f} T" if value >= 1e12 else f"{value / 1e9:.1f} G"


def contenders(rows: list[Row]) -> list[str]:
    """Names, ours first, the others in an order that is the same in every picture."""
    return sorted({row["contender"] for row in rows}, key=lambda name: (name != OURS, name))


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
        for number, name in enumerate(contenders(rows)):
            points = sorted(
                (row["M"], row["percent_limit"]) for row in rows if row["dtype"] == dtype and row["contender"] == name
            )
            axis.plot(
                *zip(*points, strict=True) if points else ((), ()), label=name, zorder=5 - number, **style(number)
            )
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
        axis.annotate(f"{name}, {_rate(rate)}FLOP/s", (high, rate / 1e9), ha="right", fontsize=8, **place)
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
        marker, colour = _MARKERS[number], COLOURS[number]
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
    """Cost of a call for the caller, as bars, with the targets above the cheapest launch."""
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
    if results["environment"].get("backend") == "cuda":
        for limit, dash in ((5, "--"), (12, ":")):
            axis.axvline(rows[0]["median"] * 1e6 + limit, color="#555555", linestyle=dash, linewidth=1)
            place = (rows[0]["median"] * 1e6 + limit, 1.0)
            axis.annotate(
                f"+{limit} us", place, xycoords=axis.get_xaxis_transform(), fontsize=8, ha="center", va="bottom"
            )
    axis.set(xlabel="microseconds per call", xlim=(0, 1.12 * max(times)))
    axis.grid(False, axis="y")
    return drawn


def draw_all(results: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Every picture whose rows are there, as PNG and SVG; returns name -> PNG. ImportError without matplotlib."""
    from .batched import experiment_pictures as batched_experiment_pictures
    from .batched import pictures as batched_pictures
    from .factor import pictures as factor_pictures
    from .sparse import pictures as powers_pictures
    from .tall_skinny import matmul_pictures, pictures

    makers = {
        "percent_of_limit": percent, "tile_size": pictures.tile_size, "leapfrog_transposed": pictures.mapping,
        "reduction": pictures.reduction, "few_rows": pictures.few_rows, "overhead": overhead, "roofline": roofline,
        **{
            name: getattr(matmul_pictures, name)
            for name in ("skinny", "steps", "model", "grid", "source", "unroll", "threads")
        },
        "batched": batched_pictures.sizes, "batched_speed": batched_pictures.speed, "gemv": batched_pictures.vectors,
        "trsv": batched_pictures.substitution, "trsm": batched_pictures.systems,
        "ragged": batched_experiment_pictures.ragged, "tba": batched_experiment_pictures.per_block,
        "readonly": batched_experiment_pictures.cached, "kernels": batched_experiment_pictures.kernels,
        "streamed": batched_experiment_pictures.streamed, "counters": batched_experiment_pictures.counters,
        "factor": factor_pictures.share, "factor_speedup": factor_pictures.speedup,
        "factor_dtypes": factor_pictures.dtypes, "factor_steps": factor_pictures.steps,
        "spmv": powers_pictures.bound, "powers": powers_pictures.speedup, "formats": powers_pictures.formats,
        "ramp": powers_pictures.ramp,
    }  # fmt: skip
    import matplotlib

    found = {}
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "mansard", "font.size": 10, "axes.titlesize": 11}):
        for name, make in makers.items():
            drawn = make(results)
            if drawn is not None:
                found[name] = folder / f"{name}.png"
                drawn.savefig(found[name], dpi=130)
                drawn.set_layout_engine("none")  # laid out once; again would cost as much as drawing
                drawn.savefig(folder / f"{name}.svg", metadata={"Date": None})
    return found
