"""Pictures of sparse products and powers: share of the bound per matrix, gains over p, formats, and small matrices."""

from __future__ import annotations

from typing import Any

from ...machine.spmv import effective_bandwidth
from ..batched.pictures import grid
from ..plots import COLOURS, figure, style
from ..rows import OURS, Row
from .calls import EXECUTIONS, FORMS
from .cases import STENCILS
from .gains import by_case, gain, libraries, sparse
from .operations import matrix_bytes
from .targets import INT32

_BAR = 0.8  # of the distance between two matrices
_MODEL = {"color": "#555555", "linestyle": (0, (6, 3)), "linewidth": 1.2}


def bound(results: dict[str, Any]) -> Any:
    """Per cent of the bound with 32-bit columns, a group of bars per matrix: shorter columns may exceed it."""
    rows = [row for row in sparse(results["rows"], "spmv", N=1) if row["dtype"] == "float64"]
    cases = by_case(results["rows"])
    if not rows:
        return None
    names = [OURS, *FORMS, *libraries(results["rows"])]
    names = [name for name in names if any(name in cases[row["case"]] for row in rows)]
    drawn, axes = figure(results, "Sparse products: share of the bound with 32-bit columns", size=(13.0, 4.8))
    axis, width = axes[0], _BAR / len(names)
    for number, name in enumerate(names):
        places, shares = [], []
        for place, row in enumerate(rows):
            found = cases[row["case"]]
            if name in found:
                least = found.get(INT32, row)["bound_seconds"]
                places.append(place - _BAR / 2 + (number + 0.5) * width)
                shares.append(100 * least / found[name]["median"])
        axis.bar(places, shares, 0.92 * width, label=name, color=COLOURS[number % len(COLOURS)])
    axis.axhline(100, color="#555555", linewidth=1)
    axis.set_xticks(range(len(rows)), [row["form"] for row in rows])
    axis.set(ylabel="% of the bound", xlim=(-0.6, len(rows) - 0.4))
    axis.grid(False, axis="x")
    axis.legend(fontsize=8, ncols=len(names), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return drawn


def speedup(results: dict[str, Any]) -> Any:
    """Times our own products against p, a panel per matrix."""
    rows, cases = sparse(results["rows"], "powers"), by_case(results["rows"])
    panels = list(dict.fromkeys(row["form"] for row in rows))
    if not panels:
        return None
    drawn, axes = grid(results, "Powers over as many products of our own", len(panels), 4, (4.0, 3.1))
    names = [OURS, *EXECUTIONS, *libraries(results["rows"])]
    for axis, matrix in zip(axes, panels, strict=True):
        inside = sorted((row for row in rows if row["form"] == matrix), key=lambda row: row["inner"])
        for number, name in enumerate(names):
            points = [(row["inner"], gain(cases[row["case"]], name)) for row in inside]
            points = [point for point in points if point[1]]
            if points:
                axis.plot(*zip(*points, strict=True), label=name, zorder=9 - number, **style(number))
        _model(axis, inside)
        axis.axhline(1, color="#555555", linewidth=0.8)
        axis.set(title=matrix, xlabel="p", ylabel="times own products", ylim=(0, None))
        axis.set_xticks([row["inner"] for row in inside])
    most = max(axes, key=lambda axis: len(axis.lines))
    drawn.legend(*most.get_legend_handles_labels(), loc="outside right upper", fontsize=9, frameon=False)
    return drawn


def _model(axis: Any, rows: list[Row]) -> None:
    points = [(row["inner"], row["predicted_speedup"]) for row in rows if row.get("predicted_speedup")]
    if points:
        axis.plot(*zip(*points, strict=True), label="equation 4.8", **_MODEL)


def formats(results: dict[str, Any]) -> Any:
    """Speed against lanes per row for stencils, and against the window that rows are sorted in for others."""
    rows = sparse(results["rows"], "spmv", pinned=True)
    by_lanes = [matrix for matrix in STENCILS if any(row["form"] == matrix for row in rows)]
    sorted_ones = [row for row in rows if row["form"] not in by_lanes]
    count = len(by_lanes) + bool(sorted_ones)
    if not count:
        return None
    drawn, axes = figure(results, "Formats of sparse matrices", 1, count, (5.2, 4.2))
    for axis, matrix in zip(axes, by_lanes, strict=False):
        inside = [row for row in rows if row["form"] == matrix]
        kinds = {
            "csr": ("csr", None),
            "sell, 32-bit columns": ("sell", "int32"),
            "sell, 16-bit columns": ("sell", "delta16"),
        }
        for number, (label, (format, index)) in enumerate(kinds.items()):
            points = sorted(
                (row["pins"].get("threads") or 32 // row["pins"]["C"], row["gflops"])
                for row in inside
                if row["pins"]["format"] == format and row["pins"].get("index") == index
            )
            axis.plot(*(zip(*points, strict=True) if points else ((), ())), label=label, **style(number))
        for row in inside:
            if row["pins"]["format"] == "ell":
                axis.axhline(row["gflops"], label="ell, one lane", **_MODEL)
        axis.set(title=matrix, xlabel="lanes per row", ylabel="GFLOP/s", xscale="log", ylim=(0, None))
        axis.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
        axis.minorticks_off()
        axis.legend(fontsize=8)
    if sorted_ones:
        _windows(axes[-1], sorted_ones)
    return drawn


def _windows(axis: Any, rows: list[Row]) -> None:
    windows = sorted({row["pins"]["sigma"] for row in rows if "sigma" in row["pins"]})
    for number, matrix in enumerate(dict.fromkeys(row["form"] for row in rows)):
        inside = [row for row in rows if row["form"] == matrix]
        points = sorted((row["pins"]["sigma"], row["gflops"]) for row in inside if "sigma" in row["pins"])
        if points:
            axis.plot(*zip(*points, strict=True), label=f"{matrix}, sell", **style(number))
        for row in inside:
            if row["pins"]["format"] == "csr":
                axis.axhline(row["gflops"], color=COLOURS[number], linewidth=1, linestyle=":", label=f"{matrix}, csr")
    axis.set(title="rows sorted by length", xlabel="window, rows", ylabel="GFLOP/s", xscale="log", ylim=(0, None))
    axis.set_xticks(windows, [str(window) for window in windows])
    axis.minorticks_off()
    axis.legend(fontsize=8)


def ramp(results: dict[str, Any]) -> Any:
    """Left: products and powers of small matrices. Right: reads by footprint, small kernels, and the fitted line."""
    rows = [row for row in sparse(results["rows"], mode="graph") if row["set"] == "cache"]
    if not rows:
        return None
    drawn, axes = figure(results, "How small matrices and kernels gain speed", 1, 2, (6.0, 4.4))
    for number, (operation, label) in enumerate((("spmv", "product"), ("powers", "five powers"))):
        points = sorted((matrix_bytes(row) / (1 << 20), row["gflops"]) for row in rows if row["operation"] == operation)
        if points:
            axes[0].plot(*zip(*points, strict=True), label=label, **style(number))
    axes[0].set(title="band-27", xlabel="matrix, MiB", ylabel="GFLOP/s", xscale="log", ylim=(0, None))
    axes[0].legend(fontsize=8)
    _kernels(axes[1], results.get("ceilings") or {})
    return drawn


def _kernels(axis: Any, ceilings: dict[str, Any]) -> None:
    details = ceilings.get("details", {})
    curve, fit = ceilings.get("cache_bandwidth", ()), details.get("ramp", {})
    for number, (label, points) in enumerate((
        ("read again and again", [(size, rate) for size, rate in curve]),
        ("small kernels, y = a x", [(size, size / seconds) for size, seconds in fit.get("points", ())]),
    )):  # fmt: skip
        if points:
            axis.plot([size / (1 << 20) for size, _ in points], [rate / 1e9 for _, rate in points], label=label,
                      **style(number))  # fmt: skip
    if "bandwidth" in fit:
        sizes = [size for size, _ in fit["points"]]
        line = [effective_bandwidth(size, fit["overhead_seconds"], fit["bandwidth"]) / 1e9 for size in sizes]
        axis.plot([size / (1 << 20) for size in sizes], line, label="equation 4.12", **_MODEL)
    axis.set(title="this device", xlabel="footprint, MiB", ylabel="GB/s", xscale="log", ylim=(0, None))
    if axis.lines:
        axis.legend(fontsize=8)
