"""Tables of other operations on batches, of experiments with products, and of what is computed for their kernels."""

from __future__ import annotations

from typing import Any

from ..rows import OURS, Row, operation_of
from ..table import Table
from ..tall_skinny import experiments
from . import counters as batched_counters
from .experiments import label
from .operations import uniform_sizes, whole_bytes
from .summary import EVERY, batches, heads, inner_of, is_square, line, sizes

VECTORS, SYSTEMS = "Matrices times vectors", "Triangular systems"
LONG = (EVERY, VECTORS, SYSTEMS)  # a line per case


def vectors(results: dict[str, Any], missed: set[int]) -> Table:
    """A x and A^T x, in per cent of the read bandwidth."""
    rows = batches(results["rows"], "gemv")
    cells = [("A^T x" if row["form"] == "T" else "A x", row["dtype"], sizes(row), *line(row)) for row in rows]
    return Table(VECTORS, ("product", "dtype", "rows, columns", *heads("read")), cells, _bad(rows, missed))


def systems(results: dict[str, Any], missed: set[int]) -> Table:
    """Substitution. Bytes are those that must be moved: n (n + 1) / 2 elements of A; the last column has all of A."""
    rows = batches(results["rows"], "trsv") + batches(results["rows"], "trsm")
    cells = []
    for row in rows:
        whole = row["percent_bandwidth"] * whole_bytes(row) / (row["gbytes_per_second"] * row["median"] * 1e9)
        way = "backward" if row["form"] == "U" else "forward"
        counted = f"{row['M'] * (row['M'] + 1) // 2} of {row['M'] ** 2}"
        cells.append((operation_of(row), way, row["dtype"], sizes(row), *line(row), counted, f"{whole:.1f}"))
    more = ("elements of A counted", "% if all were")
    return Table(SYSTEMS, ("operation", "way", "dtype", "n", *heads("bandwidth"), *more), cells, _bad(rows, missed))


def ragged(results: dict[str, Any], missed: set[int]) -> Table:
    """Matrices of all sizes, beside equal ones that have as many bytes."""
    rows = batches(results["rows"], "ragged")
    cells = []
    for row in rows:
        size, count = uniform_sizes(row["M"], row["N"], row["K"])
        share = f"{row['percent_uniform']:.1f}" if row.get("percent_uniform") else ""
        cells.append((row["dtype"], sizes(row), *line(row), f"{count} of {size}", share))
    columns = ("dtype", "sizes", *heads("copy"), "equal matrices", "% of their speed")
    return Table("Ragged batches", columns, cells, _bad(rows, missed))


def per_block(results: dict[str, Any], missed: set[int]) -> Table:
    """Several matrices per block: for each size the best number, and what one alone reaches."""
    rows, cells = experiments.of_set(results["rows"], "tba"), []
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
    rows = {row["M"]: row for row in experiments.of_set(results["rows"], "readonly") if row["pins"]}
    chosen = {row["M"]: row for row in batches(results["rows"]) if is_square(row) and row["dtype"] == "float64"
              and not row["accumulate"]}  # fmt: skip
    cells = [
        (str(n), f"{row['gflops']:.1f}", f"{chosen[n]['gflops']:.1f}", f"{row['bound_gflops']:.1f}",
         f"{row['median'] / chosen[n]['median']:.2f}")
        for n, row in sorted(rows.items()) if n in chosen
    ]  # fmt: skip
    columns = ("n", "read-only cache, GFLOP/s", "chosen, GFLOP/s", "P_max", "x")
    return Table("Through the read-only cache", columns, cells)


def kernels(results: dict[str, Any], missed: set[int]) -> Table:
    """Updates of rank 8, 16, 32: the best pinned kernel, the chosen one, and the best peer."""
    pinned = [row for row in experiments.of_set(results["rows"], "kernels") if row["pins"]]
    chosen = {(inner_of(row), row["M"]): row for row in batches(results["rows"])
              if row["M"] == row["N"] and row["dtype"] == "float64" and not row["accumulate"]}  # fmt: skip
    cells: list[tuple[str, ...]] = []
    bad = set()
    for place in sorted({(inner_of(row), row["M"]) for row in pinned}):
        best = min((row for row in pinned if (inner_of(row), row["M"]) == place), key=lambda row: row["median"])
        row = chosen.get(place, {})
        if id(row) in missed:
            bad.add(len(cells))
        cells.append((str(place[0]), str(place[1]), label(best["pins"]), f"{best['gflops']:.0f}",
                      f"{row.get('gflops', 0):.0f}", f"{best['bound_gflops']:.0f}", f"{row.get('x_peer', 0):.2f}",
                      row.get("best_peer", "")))  # fmt: skip
    columns = ("k", "m = n", "best pinned", "GFLOP/s", "chosen, GFLOP/s", "P_max", "x peer", "best peer")
    return Table("Kernels for updates of low rank", columns, cells, frozenset(bad))


def streamed(results: dict[str, Any], missed: set[int]) -> Table:
    """Batched against one by one: microseconds of every contender."""
    rows = [row for row in results["rows"] if row["set"] == "streamed" and row["status"] == "ok"]
    names = sorted({row["contender"] for row in rows}, key=lambda name: (name != OURS, name))
    cells: list[tuple[str, ...]] = []
    bad = set()
    for case in dict.fromkeys(row["case"] for row in rows):
        found = {row["contender"]: row for row in rows if row["case"] == case}
        first = next(iter(found.values()))
        if any(id(row) in missed for row in found.values()):
            bad.add(len(cells))
        times = (f"{found[name]['median'] * 1e6:.1f}" if name in found else "missing" for name in names)
        cells.append((str(inner_of(first)), str(first["M"]), str(first["K"]), *times))
    columns = ("k", "m = n", "matrices", *(f"{name}, us" for name in names))
    return Table("Batched and one by one", columns, cells, frozenset(bad))


def counters(results: dict[str, Any], missed: set[int]) -> Table:
    """Occupancy and the efficiency of loads, computed from the chosen kernels, not counted by the device."""
    cells = [
        (str(each.n), each.kernel, str(each.threads), str(each.blocks), f"{100 * each.occupancy:.0f}",
         f"{100 * each.efficiency:.0f}")
        for each in batched_counters.all_of(results)
    ]  # fmt: skip
    columns = ("n", "kernel", "threads per block", "blocks per SM", "occupancy, %", "of the bytes loaded, % needed")
    return Table("Occupancy and loads, computed", columns, cells)


def _bad(rows: list[Row], missed: set[int]) -> frozenset[int]:
    return frozenset(number for number, row in enumerate(rows) if id(row) in missed)


MAKERS = (vectors, systems, ragged, per_block, cached, kernels, streamed, counters)
