"""Pictures of operations on batches: share of the bandwidth and speed under the bound, against the size."""

from __future__ import annotations

from typing import Any

from ..extension import Picture
from ..plots import BOUND, contenders, every_contender, figure, grid, legend, lines, percent_axis, sizes_below
from ..rows import Row
from .ragged_pictures import ragged
from .summary import batches, inner_of, is_square


def sizes(results: dict[str, Any]) -> Any:
    """Per cent of the copy bandwidth against the size of square products, a panel per dtype; A B + C has its own."""
    rows = every_contender(results, filter(is_square, batches(results["rows"])))
    panels = list(dict.fromkeys((row["accumulate"], row["dtype"]) for row in rows))
    if not panels:
        return None
    drawn, axes = grid(results, "Batches of n x n products: share of the copy bandwidth", len(panels))
    for axis, (added, dtype) in zip(axes, panels, strict=True):
        inside = [row for row in rows if (row["accumulate"], row["dtype"]) == (added, dtype)]
        lines(axis, inside, contenders(rows), lambda row: row["M"], "percent_bandwidth")
        sizes_below(axis, (row["M"] for row in rows))
        axis.set(title=f"{dtype}, {'A B + C' if added else 'A B'}", ylabel="% of copy bandwidth")
        percent_axis(axis)
    legend(axes, loc="best")
    return drawn


def speed(results: dict[str, Any]) -> Any:
    """Figures 5 and 8 of Masliah et al.: GFLOP/s under the upper bound, float64 up to 32, A B and A B + C."""
    mine = [r for r in batches(results["rows"]) if is_square(r) and r["dtype"] == "float64" and r["M"] <= 32]
    rows = every_contender(results, mine)
    panels = sorted({row["accumulate"] for row in rows})
    if not panels:
        return None
    drawn, axes = grid(results, "Batches of n x n products, float64: speed under the bound", len(panels))
    for axis, added in zip(axes, panels, strict=True):
        inside = [row for row in rows if row["accumulate"] == added]
        lines(axis, inside, contenders(rows), lambda row: row["M"], "gflops")
        bound = sorted((row["M"], _most(row)) for row in mine if row["accumulate"] == added)
        axis.plot(*zip(*bound, strict=True), **BOUND | {"label": "P_max, or arithmetic"})
        axis.set(title="A B + C" if added else "A B", xlabel="n", ylabel="GFLOP/s", ylim=(0, None))
    legend(axes, loc="upper left")
    return drawn


def _most(row: Row) -> float:
    """P_max, or what multiply-adds allow where that is less."""
    most: float = row["bound_gflops"]
    return min(most, 100 * row["gflops"] / row["percent_limit"]) if row.get("percent_limit") else most


def _kind(row: Row) -> str:
    rows, columns = row["M"], inner_of(row)
    if rows == columns:
        return f"square, {row['dtype']}"
    return f"tall, {columns} columns" if rows > columns else f"wide, {rows} rows"


def vectors(results: dict[str, Any]) -> Any:
    """Dong's figures 3.19 to 3.29: for each shape A x and A^T x side by side."""
    rows = every_contender(results, batches(results["rows"], "gemv"))
    forms = sorted({row["form"] for row in rows})
    kinds = list(dict.fromkeys(map(_kind, rows)))
    if not kinds:
        return None
    panels = [(kind, form) for kind in kinds for form in forms]
    drawn, axes = grid(results, "Matrices times vectors: share of the read bandwidth", len(panels), 4, (4.6, 3.0))
    for axis, (kind, form) in zip(axes, panels, strict=True):
        inside = [row for row in rows if (_kind(row), row["form"]) == (kind, form)]
        lines(axis, inside, contenders(rows), _longest, "percent_bandwidth")
        if inside:
            sizes_below(axis, map(_longest, inside), "rows" if "tall" in kind else "columns" if "wide" in kind else "n")
        axis.set(title=f"{'A^T x' if form else 'A x'}, {kind}", ylabel="% of read bandwidth")
        percent_axis(axis)
    legend(axes)
    return drawn


def _longest(row: Row) -> int:
    return max(int(row["M"]), inner_of(row))


def substitution(results: dict[str, Any]) -> Any:
    """Dong's figures 4.4 and 4.5: speed of forward and backward substitution under the bound; below, the share."""
    mine = [row for row in batches(results["rows"], "trsv") if row["dtype"] == "float64"]
    rows = every_contender(results, mine)
    forms = sorted({row["form"] for row in rows})
    if not forms:
        return None
    drawn, axes = figure(results, "Triangular systems, one right-hand side, float64", 2, len(forms), (6.4, 3.6))
    for column, form in enumerate(forms):
        inside = [row for row in rows if row["form"] == form]
        for axis, what in ((axes[column], "gflops"), (axes[len(forms) + column], "percent_bandwidth")):
            lines(axis, inside, contenders(rows), lambda row: row["M"], what)
            sizes_below(axis, (row["M"] for row in inside))
        bound = sorted((row["M"], row["bound_gflops"]) for row in mine if row["form"] == form)
        axes[column].plot(*zip(*bound, strict=True), **BOUND)
        axes[column].set(title="backward" if form else "forward", ylabel="GFLOP/s", yscale="log")
        axes[len(forms) + column].set(ylabel="% of bandwidth, n (n + 1) / 2 of A")
        percent_axis(axes[len(forms) + column])
    legend(axes, loc="lower right")
    return drawn


def systems(results: dict[str, Any]) -> Any:
    """Share of the bandwidth against the size, a panel per number of right-hand sides, float64."""
    mine = [row for row in batches(results["rows"], "trsm") if row["dtype"] == "float64"]
    rows = every_contender(results, mine)
    panels = sorted({(row["N"], row["form"]) for row in rows}, key=lambda place: (place[0], place[1]))
    if not panels:
        return None
    drawn, axes = grid(results, "Triangular systems, float64: share of the bandwidth", len(panels))
    for axis, (columns, form) in zip(axes, panels, strict=True):
        inside = [row for row in rows if (row["N"], row["form"]) == (columns, form)]
        lines(axis, inside, contenders(rows), lambda row: row["M"], "percent_bandwidth")
        sizes_below(axis, (row["M"] for row in inside))
        way = "backward" if form else "forward"
        axis.set(title=f"{columns} right-hand sides, {way}", ylabel="% of bandwidth, n (n + 1) / 2 of A")
        percent_axis(axis)
    legend(axes)
    return drawn


PICTURES = {
    "batched": Picture("Batches of small products: share of the copy bandwidth against the size", sizes),
    "batched_speed": Picture("Batches of small products: speed under the bound P_max", speed),
    "gemv": Picture("Batches of matrices times vectors", vectors),
    "trsv": Picture("Batches of triangular systems: forward and backward substitution", substitution),
    "trsm": Picture("Batches of triangular systems with several right-hand sides", systems),
    "ragged": Picture("Batches of matrices of all sizes", ragged),
}
