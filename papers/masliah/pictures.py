"""Pictures of Masliah et al.'s experiments: matrices per block, the read-only cache, occupancy and loads."""

from __future__ import annotations

from typing import Any

from mansard.bench.batched.summary import batches, is_square
from mansard.bench.plots import BOUND, figure, grid, percent_axis, sizes_below, style

from ..batches import is_experiment
from ..found import experiment, lines
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


def _cpu(kind: str) -> list[dict[str, Any]]:
    return [row for row in lines("papers/masliah/cpu.jsonl") if row["what"] == kind]


def _of_processor(title: str, rows: list[dict[str, Any]], columns: int) -> tuple[Any, Any]:
    about = {"environment": {"device": rows[0]["cpu"], "date": max(row["date"] for row in rows)}}
    return figure(about, title, 1, columns, (4.6, 3.8) if columns > 1 else (7.2, 4.0))


def loops() -> Any:
    """Figures 4b and 5b of Masliah et al.: the loops, ours and the bound on a CPU, a panel per number of threads."""
    rows = _cpu("speed")
    threads = sorted({row["threads"] for row in rows})
    drawn, axes = _of_processor("Loops on a CPU, float64, C += A B", rows, len(threads))
    for axis, count in zip(axes, threads, strict=True):
        inside = [row for row in rows if row["threads"] == count]
        for number, name in enumerate(("Mansard", "registers", "ikj", "ijk")):
            points = sorted((row["n"], row["gflops"]) for row in inside if row["kernel"] == name)
            axis.plot(*zip(*points, strict=True), label=name, **style(number))
        bound = sorted({(row["n"], row["bound_gflops"]) for row in inside})
        axis.plot(*zip(*bound, strict=True), **BOUND)
        sizes_below(axis, (row["n"] for row in inside))
        axis.set(title=f"{count} thread{'s' if count > 1 else ''}", ylabel="GFLOP/s", ylim=(0, None))
    axes[0].legend(fontsize=8)
    return drawn


def counts() -> Any:
    """Figures 3 and 5a of Masliah et al.: instructions and stores of a product by each loop."""
    rows = _cpu("counts")
    drawn, axes = _of_processor("Instructions of a product, counted by valgrind, AVX2", rows, 2)
    for axis, what in zip(axes, ("instructions", "stores"), strict=True):
        for number, name in enumerate(("registers", "ikj", "ijk")):
            points = sorted((row["n"], row[what]) for row in rows if row["kernel"] == name)
            axis.plot(*zip(*points, strict=True), label=name, **style(number))
        sizes_below(axis, (row["n"] for row in rows))
        axis.set(title=what, ylabel="per product", yscale="log")
    axes[0].legend(fontsize=8)
    return drawn


def cores() -> Any:
    """Figure 4b of Masliah et al.: speed over threads, a panel per size."""
    rows = experiment("masliah-cpu")
    sizes = sorted({row["n"] for row in rows})
    drawn, axes = _of_processor("Speed over threads, float64, C += A B", rows, len(sizes))
    for axis, n in zip(axes, sizes, strict=True):
        inside = [row for row in rows if row["n"] == n]
        for number, name in enumerate(("Mansard", "registers", "ikj", "ijk")):
            points = sorted((row["threads"], row["gflops"]) for row in inside if row["kernel"] == name)
            axis.plot(*zip(*points, strict=True), label=name, **style(number))
        bound = sorted({(row["threads"], row["bound_gflops"]) for row in inside})
        axis.plot(*zip(*bound, strict=True), **BOUND)
        axis.set(title=f"n = {n}", xlabel="threads", ylabel="GFLOP/s", ylim=(0, None))
        axis.set_xticks(sorted({row["threads"] for row in inside}))
    axes[0].legend(fontsize=8)
    return drawn


# pictures of the page alone, which need no results of a benchmark
PAGE = {"loops": loops, "counts": counts, "cores": cores}
