"""Pictures of Masliah et al.'s experiments: matrices per block, the read-only cache, occupancy and loads."""

from __future__ import annotations

from typing import Any

from mansard.bench.batched.summary import batches, is_square
from mansard.bench.plots import BOUND, figure, grid, percent_axis, sizes_below, style

from ..batches import is_experiment
from . import counters as computed
from .tables import matrices_of


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
        axis.plot(*zip(*bound, strict=True), **BOUND)
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
    percent_axis(axes[0])
    axes[0].legend(fontsize=8)
    return drawn


def counters(results: dict[str, Any]) -> Any:
    """Figures 7 and 8 of Masliah et al., computed instead of counted."""
    found = computed.all_of(results)
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
