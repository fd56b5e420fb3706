"""Tables of Panzlaff's experiments, and of the micro-benchmarks behind his models."""

from __future__ import annotations

from typing import Any

from mansard.bench.rows import Row
from mansard.bench.sparse.gains import sparse
from mansard.bench.sparse.operations import matrix_bytes
from mansard.bench.table import Table
from mansard.machine import spmv


def formats(results: dict[str, Any], missed: set[int]) -> Table:
    """Chunks, lanes, sorting and index widths, one by one."""
    rows = sparse(results["rows"], "spmv", pinned=True)
    cells = [
        (row["form"], row["stored"], str(_lanes(row)), row["columns"], f"{row['storage'].get('padding', 1.0):.3f}",
         f"{row['median'] * 1e6:.1f}", f"{row['gflops']:.1f}", f"{row['bound_seconds'] * 1e6:.1f}",
         f"{row['percent_limit']:.1f}")
        for row in rows
    ]  # fmt: skip
    columns = ("matrix", "stored as", "lanes a row", "columns", "padding", "us", "GFLOP/s", "bound, us", "% of bound")
    return Table("Formats (Panzlaff, figures 3.2 to 3.8)", columns, cells)


def _lanes(row: Row) -> int:
    pins = row["pins"]
    return int(pins.get("threads") or (32 // pins["C"] if "C" in pins else row["config"].get("THREADS", 1)))


def ramp(results: dict[str, Any], missed: set[int]) -> Table:
    """Table of small matrices, in caches and beyond (figures 4.4 and 4.6)."""
    rows = [row for row in sparse(results["rows"], mode="graph") if row["set"] == "cache"]
    places = {(row["operation"], row["K"]): row for row in rows}
    cells = []
    for rows_of in sorted({row["K"] for row in rows}):
        line = [places.get((operation, rows_of)) for operation in ("spmv", "powers")]
        size = next(matrix_bytes(row) for row in line if row) / (1 << 20)
        texts = [f"{row[name]:.4g}" if row else "" for row in line for name in ("gflops", "gbytes_per_second")]
        cells.append((f"{size:.3g}", *texts, line[1].get("execution", "") if line[1] else ""))
    columns = ("matrix, MiB", "product, GFLOP/s", "GB/s", "five powers, GFLOP/s", "GB/s, matrix once", "execution")
    return Table("Ramp-up of band-27 (figures 4.4 and 4.6)", columns, cells)


def budget(results: dict[str, Any], missed: set[int]) -> Table:
    """Table of five powers by the share of the cache that level groups take."""
    rows = [row for row in sparse(results["rows"], "powers", pinned=True) if row["set"] == "budget"]
    cells = [
        (row["form"], str(row["pins"]["budget"]), str(row.get("groups", "")), f"{row['median'] * 1e6:.1f}",
         f"{row['gflops']:.1f}", f"{row.get('predicted_seconds', 0) * 1e6:.1f}")
        for row in rows
    ]  # fmt: skip
    columns = ("matrix", "budget, MiB", "groups", "us", "GFLOP/s", "by 4.8 and 4.12, us")
    return Table("Five powers by level groups (table 4.4, figure 4.8)", columns, cells)


def streams(results: dict[str, Any], missed: set[int]) -> Table:
    """Table of the micro-benchmarks behind the models."""
    ceilings = results.get("ceilings")
    if results.get("family") != "powers" or not ceilings:
        return Table("", (), [])
    probes, found = ceilings["details"].get("probes", {}), []
    for name in ("read", "copy", "scale", "triad"):
        rates = [each["value"] for probe in (name, f"{name}_ring") for each in probes.get(probe, {}).values()]
        rate = max(rates, default=ceilings.get(f"{name}_bandwidth") or 0.0)
        found += [(name, f"{rate / 1e9:.1f} GB/s", "table 4.1")] if rate else []
    curve = ceilings["cache_bandwidth"]
    found += [(f"read of {size / (1 << 20):.4g} MiB", f"{rate / 1e9:.1f} GB/s", "figure 4.2") for size, rate in curve]
    fit = ceilings["details"].get("ramp", {})
    if "bandwidth" in fit:
        text = f"{fit['overhead_seconds'] * 1e6:.2f} us + bytes / {fit['bandwidth'] / 1e9:.0f} GB/s"
        found.append(("small kernels", text, "table 4.6"))
    if curve:
        ratio = max(rate for _, rate in curve) / ceilings["read_bandwidth"]
        gains = ", ".join(f"{p}: {spmv.powers_speedup(p, ratio):.2f}" for p in (2, 3, 4, 5, 8, 10))
        found.append((f"gain of p powers, caches {ratio:.2f} x the memory", gains, "table 4.5, by equation 4.8"))
    return Table("Streams, caches and small kernels", ("what", "measured", "of Panzlaff"), found)
