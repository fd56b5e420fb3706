"""Tables of Dong's """

from __future__ import annotations

from typing import Any

from mansard.bench.batched.summary import batches, inner_of
from mansard.bench.factor.operations import FACTORS
from mansard.bench.factor.summary import NAMES
from mansard.bench.rows import OURS, of_set, operation_of
from mansard.bench.table import Table
from mansard.operations.factor.blocked import HOW

from .cases import label

STEPS = "Factorizations step by step, GFLOP/s"


def kernels(results: dict[str, Any], missed: set[int]) -> Table:
    """Updates of rank 8, 16, 32: the best pinned kernel, the chosen one, and the best peer."""
    pinned = [row for row in of_set(results["rows"], "kernels") if row["pins"]]
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


def steps(results: dict[str, Any], missed: set[int]) -> Table:
    """Blocked factorizations as they became fast, beside the chosen one and the best peer."""
    rows = [row for row in results["rows"] if row["set"] == "steps" and operation_of(row) in FACTORS]
    rows = [row for row in rows if row["status"] == "ok"]
    cells: list[tuple[str, ...]] = []
    for place in dict.fromkeys((operation_of(row), row["M"]) for row in rows):
        inside = [row for row in rows if (operation_of(row), row["M"]) == place]
        speeds = {row["form"]: f"{row['gflops']:.0f}" for row in inside if row["contender"] == OURS}
        peer = max((row["gflops"] for row in inside if row["contender"] != OURS), default=0.0)
        cells.append((NAMES[place[0]], str(place[1]), str(inside[0]["K"]), *(speeds.get(name, "") for name in HOW),
                      speeds.get("", ""), f"{peer:.0f}" if peer else ""))  # fmt: skip
    return Table(STEPS, ("operation", "n", "matrices", *HOW, "chosen", "best peer"), cells)
