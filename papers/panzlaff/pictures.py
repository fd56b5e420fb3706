"""Pictures of Panzlaff's experiments: formats, and how small matrices and kernels gain speed."""

from __future__ import annotations

from typing import Any

from mansard.bench.plots import COLOURS, figure, style
from mansard.bench.rows import Row
from mansard.bench.sparse.gains import by_case, sparse
from mansard.bench.sparse.operations import matrix_bytes
from mansard.bench.sparse.pictures import MODEL
from mansard.machine.spmv import effective_bandwidth

from ..found import experiment, results
from .bandwidths import picture
from .cases import STENCILS

_MIB = (1, 4, 16, 64, 256)  # sizes of a band on the axis of level groups


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
                axis.axhline(row["gflops"], label="ell, one lane", **MODEL)
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
        axis.plot([size / (1 << 20) for size in sizes], line, label="equation 4.12", **MODEL)
    axis.set(title="this device", xlabel="footprint, MiB", ylabel="GB/s", xscale="log", ylim=(0, None))
    if axis.lines:
        axis.legend(fontsize=8)


def level_groups() -> Any:
    """Figures 4.6 and 4.7 of Panzlaff: five powers of a band by size and C, level groups beside products."""
    found = [row for row in experiment("panzlaff-rows", matrix="band-27") if row["p"] == 5]
    about = {"environment": {"device": found[0]["device"], "date": max(row["date"] for row in found)}}
    drawn, axes = figure(about, "Five powers of band-27: level groups and products", 1, 2, (6.0, 4.2))
    for axis, chunks in zip(axes, ((8, 32), (8, 4, 2, 1)), strict=True):
        for number, C in enumerate(chunks):
            for which in ("groups", "plain"):
                points = sorted((row["rows"] * 27 * 12 / 2**20, row["gflops"]) for row in found
                                if (row["C"], row["execution"]) == (C, which))  # fmt: skip
                label = {"label": f"C = {C}" if C > 1 else "CRS"} if which == "groups" else {}
                dotted = {"linestyle": ":", "marker": ""} if which == "plain" else {}
                axis.plot(*zip(*points, strict=True), **(style(number) | label | dotted))
        axis.plot([], [], color="#555555", marker="o", label="level groups")
        axis.plot([], [], color="#555555", linestyle=":", label="products")
        axis.axvline(found[0]["cache"] / 2**20, color="#888888", linewidth=0.8)
        axis.set(xlabel="matrix, MiB; the line is the cache", ylabel="GFLOP/s", xscale="log", ylim=(0, None))
        axis.set_xticks(_MIB, map(str, _MIB))
        axis.minorticks_off()
        axis.legend(fontsize=8, loc="upper left")
    return drawn


_CONTENDERS = {"Mansard": "Mansard", "Mansard groups, graph": "level groups, in a graph",
               "CuPy (cuSPARSE)": "CuPy (cuSPARSE)"}  # fmt: skip


def gains() -> Any:
    """Figures 4.5 and 4.9: two and five powers over as many products of our own, beside equation 4.8."""
    found = results("h200/powers")
    drawn, axes = figure(found, "Powers, times as fast as products of our own", 2, 1, (10.0, 2.9))
    for axis, p in zip(axes, (2, 5), strict=True):
        cases = [each for each in by_case(found["rows"]).values()
                 if (row := each.get("Mansard")) and row["operation"] == "powers" and row["inner"] == p
                 and row["dtype"] == "float64" and "Mansard plain" in each and not row["pins"]]  # fmt: skip
        cases.sort(key=lambda each: -each["Mansard plain"]["median"] / each["Mansard"]["median"])
        for number, (name, label) in enumerate(_CONTENDERS.items()):
            bars = [(place + 0.27 * (number - 1), each["Mansard plain"]["median"] / each[name]["median"])
                    for place, each in enumerate(cases) if name in each]  # fmt: skip
            axis.bar(*zip(*bars, strict=True), width=0.25, color=COLOURS[number], label=label)
        models = [each["Mansard"]["predicted_speedup"] for each in cases]
        axis.plot(range(len(cases)), models, color="#000000", marker="_", markersize=16, linestyle="",
                  label="equation 4.8 allows")  # fmt: skip
        axis.axhline(1, color="#555555", linewidth=1)
        axis.set_xticks(range(len(cases)), [each["Mansard"]["form"] for each in cases])
        axis.set(title=f"p = {p}", ylabel="times as fast")
    axes[0].legend(fontsize=8, ncols=4)
    return drawn


# pictures of the page alone, which need no results of a benchmark
PAGE = {"level_groups": level_groups, "copies": picture, "gains": gains}
