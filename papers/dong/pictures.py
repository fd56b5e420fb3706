"""Pictures of Dong's experiments: updates of low rank, products one by one, factorizations step by step."""

from __future__ import annotations

from itertools import product
from typing import Any

from mansard.bench.batched.summary import batches, inner_of
from mansard.bench.factor.operations import FACTORS
from mansard.bench.factor.pictures import panels_of
from mansard.bench.factor.summary import NAMES
from mansard.bench.plots import (
    BOUND,
    COLOURS,
    contenders,
    every_contender,
    figure,
    grid,
    legend,
    lines,
    percent_axis,
    sizes_below,
    style,
)
from mansard.bench.rows import OURS, operation_of
from mansard.operations.factor.blocked import HOW

from ..batches import is_experiment
from ..found import RESULTS, best, experiment, results
from . import hydro, scaling
from .cases import label
from .timeline import PARTS

_PINNED = {"linewidth": 0.9, "markerfacecolor": "white"}
_VENDOR = {"color": "#882255", "marker": "*", "markersize": 9, "linestyle": "", "zorder": 6}
_RECURSIVE = {"color": "#882255", "marker": "*", "markersize": 7, "linewidth": 0.9}  # the eighth line of seven colours


def kernels(results: dict[str, Any]) -> Any:
    """Dong's figures 3.12 to 3.15: pinned kernels, the chosen one and the peers, a panel per rank of the update."""
    rows = [row for row in results["rows"] if is_experiment(row, "kernels")]
    if not rows:
        return None
    names, ranks = list(dict.fromkeys(label(row["pins"]) for row in rows)), sorted({inner_of(row) for row in rows})
    places = {(row["M"], inner_of(row)) for row in rows}
    mine = [row for row in batches(results["rows"]) if (row["M"], inner_of(row)) in places and row["M"] == row["N"]
            and row["dtype"] == "float64" and not row["accumulate"]]  # fmt: skip
    others = every_contender(results, mine)
    drawn, axes = grid(results, "Updates of low rank, float64: pinned kernels, the choice and peers", len(ranks))
    for axis, rank in zip(axes, ranks, strict=True):
        lines(axis, [row for row in mine if inner_of(row) == rank], [OURS], lambda row: row["M"], "gflops")
        peers = (row for row in others if row["contender"] != OURS and inner_of(row) == rank)
        vendor = best(peers, lambda row: row["M"])
        points = [(n, row["gflops"]) for n, row in vendor.items()]
        axis.plot(*zip(*points, strict=True), label="cuBLAS, the faster of two callers", **(style(0) | _VENDOR))
        for number, name in enumerate(names, 1):
            points = sorted((r["M"], r["gflops"]) for r in rows if inner_of(r) == rank and label(r["pins"]) == name)
            if points:
                axis.plot(*zip(*points, strict=True), label=name, **(style(number) | _PINNED))
        bound = sorted({(row["M"], row["bound_gflops"]) for row in rows if inner_of(row) == rank})
        axis.plot(*zip(*bound, strict=True), **BOUND)
        axis.set(title=f"k = {rank}", xlabel="m = n", ylabel="GFLOP/s", ylim=(0, None))
    legend(axes, ncols=2, fontsize=7)
    return drawn


def shapes() -> Any:
    """Figures 3.19 to 3.29: products with vectors, a panel per kind of shape, ours beside the faster cuBLAS."""
    found = results("h200/batched")
    every = [row for row in found["rows"] if row["set"] in ("gemv", "gemvt") and row["status"] == "ok"
             and row["dtype"] == "float64"]  # fmt: skip
    drawn, axes = figure(found, "Products with vectors, float64, ours (solid) and cuBLAS (dashed)", 2, 3, (4.6, 3.4))
    for place, (name, side) in enumerate(product(("gemvt", "gemv"), ("tall", "wide", "square"))):
        inside = [(*_sides(row), row) for row in every if row["set"] == name]
        chosen = [(short, long, row) for kind, short, long, row in inside if kind == side]
        for number, width in enumerate(sorted({short for short, *_ in chosen})):
            for ours in (True, False):
                some = (row for short, _, row in chosen if short == width and (row["contender"] == OURS) == ours)
                points = best(some, lambda row: _sides(row)[2])
                look = {"linestyle": "-"} if ours else {"linestyle": "--", "markerfacecolor": "white"}
                text = {"label": f"{width} {'columns' if side == 'tall' else 'rows'}"} if ours and width else {}
                axes[place].plot(points.keys(), [row["percent_bandwidth"] for row in points.values()],
                                 **(style(number) | look | text))  # fmt: skip
        sizes_below(axes[place], (long for _, long, _ in chosen), {"tall": "rows", "wide": "columns"}.get(side, "n"))
        percent_axis(axes[place])
        axes[place].set(title=f"{'A^T x' if name == 'gemvt' else 'A x'}, {side}", ylabel="% of read bandwidth")
        if side != "square":
            axes[place].legend(fontsize=8, loc="lower right")
    return drawn


def _sides(row: dict[str, Any]) -> tuple[str, int, int]:
    """The kind of a shape, its fixed side (of squares none), and the side that varies."""
    rows, columns = row["M"], inner_of(row)
    if rows == columns:
        return "square", 0, rows
    return ("tall", columns, rows) if rows > columns else ("wide", rows, columns)


def streamed(results: dict[str, Any]) -> Any:
    """Dong's figures 3.15 and 3.16: 500 products at once and one by one, a panel per inner size."""
    rows = [row for row in results["rows"] if row["set"] == "streamed" and row["status"] == "ok"]
    inner = sorted({inner_of(row) for row in rows})
    if not inner:
        return None
    drawn, axes = grid(results, f"{rows[0]['K']} products at once and one by one, float64", len(inner))
    for axis, k in zip(axes, inner, strict=True):
        lines(axis, [row for row in rows if inner_of(row) == k], contenders(rows), lambda row: row["M"], "gflops")
        axis.set(title=f"k = {k}", xlabel="m = n", ylabel="GFLOP/s", ylim=(0, None))
    legend(axes)
    return drawn


def steps(results: dict[str, Any]) -> Any:
    """Dong's figures 4.1 to 4.3: speed of blocked factorizations, step by step, and of the fastest peer."""
    rows = [row for row in results["rows"] if row["set"] == "steps" and operation_of(row) in FACTORS]
    rows = [row for row in rows if row["status"] == "ok"]
    panels = panels_of(rows)
    if not panels:
        return None
    drawn, axes = figure(results, "Factorizations of 2,000 matrices, float64, step by step", 1, len(panels), (5.4, 4.8))
    for axis, operation in zip(axes, panels, strict=True):
        inside = [row for row in rows if operation_of(row) == operation]
        for number, form in enumerate(("", *HOW)):
            points = {r["M"]: r["gflops"] for r in inside if r["contender"] == OURS and r["form"] == form}
            if points:
                look = style(number) | (_RECURSIVE if form == "recursive" else {})
                axis.plot(*zip(*sorted(points.items()), strict=True), label=form or "chosen", **look)
        best: dict[int, float] = {}
        for row in inside:
            if row["contender"] != OURS:
                best[row["M"]] = max(best.get(row["M"], 0.0), row["gflops"])
        if best:
            axis.plot(*zip(*sorted(best.items()), strict=True), label="best peer", color="#555555", linestyle="--")
        axis.set(title=NAMES[operation], xlabel="n", ylabel="GFLOP/s", yscale="log")
    handles, names = max((axis.get_legend_handles_labels() for axis in axes), key=lambda found: len(found[1]))
    drawn.legend(handles, names, loc="outside right upper", fontsize=8)
    return drawn


def steps_of_runs() -> Any:
    """The application's picture: seconds of a step against unknowns."""
    folders = (RESULTS / "h200/hydro", RESULTS / "xeon-avx512-2-cores/hydro")
    return hydro.figure_of(hydro.latest([row for folder in folders for row in hydro.read(folder, "hydro.jsonl")]))


def time_lines() -> Any:
    """Dong's figures 3.4 and 3.6: when the parts of an LU factorization run, a line per algorithm."""
    found = experiment("dong-experiments", what="line")
    about = {"environment": {"device": found[0]["device"], "date": max(row["date"] for row in found)}}
    title = f"LU of {found[0]['count']:,} matrices of {found[0]['n']} x {found[0]['n']}, float64"
    drawn, (axis,) = figure(about, title, size=(11, 3.0))
    for part, colour in zip(PARTS, COLOURS, strict=False):
        for place, row in enumerate(found):
            begin = row["parts"][0][1]
            bars = [((start - begin) / 1e3, (end - start) / 1e3) for name, start, end in row["parts"] if name == part]
            axis.broken_barh(bars, (place - 0.35, 0.7), color=colour, linewidth=0, label="" if place else part)
    axis.set_yticks(range(len(found)), [row["how"] for row in found])
    axis.invert_yaxis()
    axis.grid(False, axis="y")
    axis.set(xlabel="milliseconds")
    drawn.legend(loc="outside right upper", fontsize=8)
    return drawn


# pictures of pages alone, which need no results of a benchmark
PAGE = {"shapes": shapes, "hydro": steps_of_runs, "scaling": scaling.picture, "time_lines": time_lines}
