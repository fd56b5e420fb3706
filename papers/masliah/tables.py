"""Tables of Masliah et al.'s """

from __future__ import annotations

from typing import Any

from mansard.bench.batched.summary import batches, is_square
from mansard.bench.rows import Row, of_set
from mansard.bench.table import Table

from . import counters as computed


def per_block(results: dict[str, Any], missed: set[int]) -> Table:
    """Several matrices per block: for each size the best number, and what one alone reaches."""
    rows, cells = of_set(results["rows"], "tba"), []
    for kernel in dict.fromkeys(row["pins"]["VARIANT"] for row in rows):
        for n in sorted({row["M"] for row in rows}):
            found = {matrices_of(row): row for row in rows if (row["pins"]["VARIANT"], row["M"]) == (kernel, n)}
            if found:
                alone, best = found[min(found)], min(found.values(), key=lambda row: row["median"])
                gain = alone["median"] / best["median"]
                cells.append((kernel, str(n), str(matrices_of(alone)), f"{alone['gflops']:.1f}", str(matrices_of(best)),
                              f"{best['gflops']:.1f}", f"{best['bound_gflops']:.1f}", f"{gain:.2f}"))  # fmt: skip
    columns = ("kernel", "n", "fewest per block", "GFLOP/s", "best per block", "GFLOP/s", "P_max", "gain")
    return Table("Matrices per block", columns, cells)


def matrices_of(row: Row) -> int:
    """Matrices per block of a pinned kernel."""
    pins = row["pins"]
    if pins["VARIANT"] == "readonly":
        return int(pins["PER_BLOCK"])
    return int(pins["WARPS"] * 32 // (pins["LANES_M"] * pins["LANES_N"]))


def cached(results: dict[str, Any], missed: set[int]) -> Table:
    """The kernel through the read-only cache beside the chosen one."""
    rows = {row["M"]: row for row in of_set(results["rows"], "readonly") if row["pins"]}
    chosen = {row["M"]: row for row in batches(results["rows"]) if is_square(row) and row["dtype"] == "float64"
              and not row["accumulate"]}  # fmt: skip
    cells = [
        (str(n), f"{row['gflops']:.1f}", f"{chosen[n]['gflops']:.1f}", f"{row['bound_gflops']:.1f}",
         f"{row['median'] / chosen[n]['median']:.2f}")
        for n, row in sorted(rows.items()) if n in chosen
    ]  # fmt: skip
    columns = ("n", "read-only cache, GFLOP/s", "chosen, GFLOP/s", "P_max", "x")
    return Table("Through the read-only cache", columns, cells)


def counters(results: dict[str, Any], missed: set[int]) -> Table:
    """Occupancy and the efficiency of loads, computed from the chosen kernels, not counted by the device."""
    cells = [
        (str(each.n), each.kernel, str(each.threads), str(each.blocks), f"{100 * each.occupancy:.0f}",
         f"{100 * each.efficiency:.0f}")
        for each in computed.all_of(results)
    ]  # fmt: skip
    columns = ("n", "kernel", "threads per block", "blocks per SM", "occupancy, %", "of the bytes loaded, % needed")
    return Table("Occupancy and loads, computed", columns, cells)
