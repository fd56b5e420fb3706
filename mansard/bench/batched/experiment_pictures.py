"""Pictures of experiments with batches: ragged ones, matrices per block, the read-only cache, kernels, streams."""

from __future__ import annotations

from typing import Any

from ..plots import COLOURS, contenders, figure, style
from ..rows import OURS, Row
from . import counters as batched_counters
from .experiments import label
from .operations import uniform_sizes
from .pictures import every_contender, grid, is_experiment, legend, lines, share, sizes_below
from .summary import batches, inner_of, is_square, sizes
from .tables import matrices_of

_PINNED = {"linewidth": 0.9, "markerfacecolor": "white"}
_BOUND = {"color": "#555555", "linestyle": (0, (6, 3)), "linewidth": 1, "label": "P_max"}


def ragged(results: dict[str, Any]) -> Any:
    """Products as bars beside equal matrices of the same bytes; Dong's figure 3.30 for vectors."""
    rows = every_contender(results, batches(results["rows"], "ragged"))
    products, vectors = ([row for row in rows if (row["N"] == 1) == one] for one in (False, True))
    panels = [draw for draw, some in ((_bars, products), (_random, vectors)) if some]
    if not panels:
        return None
    drawn, axes = figure(results, "Ragged batches: sizes from 1 to n", 1, len(panels), (7.2, 4.2))
    for axis, draw in zip(axes, panels, strict=True):
        draw(axis, products if draw is _bars else vectors)
    return drawn


def _bars(axis: Any, rows: list[Row]) -> None:
    cases = list(dict.fromkeys(row["case"] for row in rows))
    names = contenders(rows)
    wide = 0.8 / (len(names) + 1)
    for number, name in enumerate([*names, "equal matrices"]):
        colour, heights = COLOURS[number % len(COLOURS)], []
        for place, case in enumerate(cases):
            found = {row["contender"]: row for row in rows if row["case"] == case}
            row = found.get(OURS if name == "equal matrices" else name)
            if row is not None:
                rate = row["gbytes_per_second"]
                if name == "equal matrices":
                    rate = 100 * rate / row["percent_uniform"] if row.get("percent_uniform") else 0
                heights.append((place + (number - len(names) / 2) * wide, rate))
        axis.bar(*zip(*heights, strict=True), wide, label=name, color=colour)
    firsts = [next(row for row in rows if row["case"] == case) for case in cases]
    texts = [
        f"{sizes(row)}\n{row['dtype']}\n(equal: {uniform_sizes(row['M'], row['N'], row['K'])[0]})" for row in firsts
    ]
    axis.set_xticks(range(len(cases)), texts)
    axis.set(title="products", ylabel="GB/s")
    axis.set_ylim(0, 1.35 * axis.get_ylim()[1])
    axis.grid(False, axis="x")
    axis.legend(fontsize=8, loc="upper left", ncols=2)


def _random(axis: Any, rows: list[Row]) -> None:
    lines(axis, rows, contenders(rows), lambda row: row["M"], "gflops")
    equal = sorted(
        (row["M"], 100 * row["gflops"] / row["percent_uniform"]) for row in rows if row.get("percent_uniform")
    )
    if equal:
        axis.plot(*zip(*equal, strict=True), color="#000000", linewidth=1, marker="x", label="equal matrices")
    sizes_below(axis, (row["M"] for row in rows), "largest size")
    axis.set(title=f"times vectors, {rows[0]['dtype']}", ylabel="GFLOP/s", ylim=(0, None))
    axis.legend(fontsize=8)


def per_block(results: dict[str, Any]) -> Any:
    """Figure 6b of Masliah et al.: a line per number of matrices in a block."""
    rows = [row for row in results["rows"] if is_experiment(row, "tba")]
    kernels = list(dict.fromkeys(row["pins"]["VARIANT"] for row in rows))
    if not kernels:
        return None
    drawn, axes = grid(results, "Matrices per block, float64", len(kernels))
    for axis, kernel in zip(axes, kernels, strict=True):
        inside = [row for row in rows if row["pins"]["VARIANT"] == kernel]
        for number, count in enumerate(sorted(set(map(matrices_of, inside)))):
            points = sorted((row["M"], row["gflops"]) for row in inside if matrices_of(row) == count)
            axis.plot(*zip(*points, strict=True), label=str(count), **style(number))
        bound = sorted({(row["M"], row["bound_gflops"]) for row in inside})
        axis.plot(*zip(*bound, strict=True), **_BOUND)
        sizes_below(axis, (row["M"] for row in inside))
        how = "a thread per entry" if kernel == "readonly" else "a warp per block"
        axis.set(title=f"kernel {kernel}, {how}", ylabel="GFLOP/s", yscale="log")
        axis.legend(fontsize=8, ncols=2, title="matrices per block", title_fontsize=8)
    return drawn


def cached(results: dict[str, Any]) -> Any:
    """Through the read-only cache, and the kernel that is chosen."""
    rows = [row for row in results["rows"] if is_experiment(row, "readonly")]
    if not rows:
        return None
    chosen = [row for row in batches(results["rows"]) if is_square(row) and row["dtype"] == "float64"
              and not row["accumulate"] and row["M"] <= 32]  # fmt: skip
    drawn, axes = figure(results, "Through the read-only cache and through shared memory, float64")
    for number, (name, some) in enumerate((("chosen", chosen), ("read-only cache, a thread per entry", rows))):
        points = sorted((row["M"], row["percent_bandwidth"]) for row in some)
        if points:
            axes[0].plot(*zip(*points, strict=True), label=name, **style(number))
    axes[0].set(xlabel="n", ylabel="% of copy bandwidth")
    share(axes[0])
    axes[0].legend(fontsize=8)
    return drawn


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
        peers = contenders(others)
        lines(axis, [row for row in others if inner_of(row) == rank], peers, lambda row: row["M"], "gflops")
        for number, name in enumerate(names, len(peers)):
            points = sorted((r["M"], r["gflops"]) for r in rows if inner_of(r) == rank and label(r["pins"]) == name)
            if points:
                axis.plot(*zip(*points, strict=True), label=name, **(style(number) | _PINNED))
        bound = sorted({(row["M"], row["bound_gflops"]) for row in rows if inner_of(row) == rank})
        axis.plot(*zip(*bound, strict=True), **_BOUND)
        axis.set(title=f"k = {rank}", xlabel="m = n", ylabel="GFLOP/s", ylim=(0, None))
    legend(axes, ncols=2, fontsize=7)
    return drawn


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


def counters(results: dict[str, Any]) -> Any:
    """Figures 7 and 8 of Masliah et al., computed instead of counted."""
    found = batched_counters.all_of(results)
    if not found:
        return None
    drawn, axes = figure(results, "Occupancy and loads of chosen kernels, computed from their launch", 1, 2, (6.4, 3.8))
    cache = [each for each in found if each.kernel == "readonly"]
    groups = {"chosen": [each for each in found if each not in cache], "read-only cache": cache}
    for number, (name, some) in enumerate(groups.items()):
        for axis, what in zip(axes, ("occupancy", "efficiency"), strict=True):
            points = sorted((each.n, 100 * getattr(each, what)) for each in some)
            if points:
                axis.plot(*zip(*points, strict=True), label=name, **style(number))
    axes[0].set(title="occupancy (computed)", ylabel="% of resident warps")
    axes[1].set(title="efficiency of loads (computed)", ylabel="% of the bytes loaded")
    for axis in axes:
        sizes_below(axis, (each.n for each in found))
        axis.set_ylim(0, 105)
    axes[0].legend(fontsize=8)
    return drawn
