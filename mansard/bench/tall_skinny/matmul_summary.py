"""Tables of matmul's sets: large times skinny, the grid of shapes, the fused passes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from ..operations import ORTHOGONAL
from ..rows import Row, of_set, operation_of
from ..table import Table

SLOWER = 0.97  # `ms.matmul` may take 3 % longer than the vendor's own call
_WORST = 10


def grid_rows(rows: Iterable[Row]) -> list[Row]:
    """Our rows of the grid that met the vendor, slowest first."""
    found = [row for row in of_set(rows, "grid") if operation_of(row) == "matmul" and row.get("x_peer")]
    return sorted(found, key=lambda row: float(row["x_peer"]))


def skinny(results: dict[str, Any], missed: set[int]) -> Table:
    """tsm2r: per cent of the read bandwidth, and times the best peer, for every width."""
    rows = of_set(results["rows"], "tsm2r")
    widths = sorted({row["N"] for row in rows})
    cells: list[tuple[str, ...]] = []
    bad = set()
    for dtype, layout, side in dict.fromkeys((row["dtype"], row["layout"], row["M"]) for row in rows):
        found = {r["N"]: r for r in rows if (r["dtype"], r["layout"], r["M"]) == (dtype, layout, side)}
        if any(id(row) in missed for row in found.values()):
            bad.add(len(cells))
        cells.append((dtype, layout, str(side), *(_percent_and_peer(found.get(n)) for n in widths)))
    columns = ("dtype", "A", "m = k", *(f"n = {n}" for n in widths))
    return Table("Large A times skinny B: % of bandwidth (x peer)", columns, cells, frozenset(bad))


def _percent_and_peer(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{row['percent_bandwidth']:.1f}" + (f" ({row['x_peer']:.2f})" if row.get("x_peer") else "")


def grid(results: dict[str, Any], missed: set[int]) -> Table:
    """How many shapes keep up with the vendor's own call, by the family that answered."""
    rows = grid_rows(results["rows"])
    cells: list[tuple[str, ...]] = []
    bad = set()
    groups = sorted({(row["mode"], row["dtype"], row.get("family", "")) for row in rows})
    for mode, dtype, family in groups:
        ratios = [r["x_peer"] for r in rows if (r["mode"], r["dtype"], r.get("family", "")) == (mode, dtype, family)]
        within = sum(ratio >= SLOWER for ratio in ratios)
        if within < len(ratios):
            bad.add(len(cells))
        spread = (f"{min(ratios):.2f}", f"{statistics.median(ratios):.2f}", f"{max(ratios):.2f}")
        cells.append((mode, dtype, family, str(len(ratios)), str(within), *spread))
    columns = ("how", "dtype", "answered by", "shapes", "at most 3 % slower", "x vendor, min", "median", "max")
    shapes = len({(row["M"], row["K"], row["N"], row["layout"]) for row in rows})
    return Table(f"matmul on {shapes} shapes against the vendor's own call", columns, cells, frozenset(bad))


def worst(results: dict[str, Any], missed: set[int]) -> Table:
    """Table of the shapes of the grid with the least ratio to the vendor."""
    rows = grid_rows(results["rows"])[:_WORST]
    cells = [
        (
            row["dtype"], f"{row['M']} x {row['K']} x {row['N']}", row["layout"], row["mode"], row.get("family", ""),
            f"{row['median'] * 1e6:.1f}", f"{row['median'] * row['x_peer'] * 1e6:.1f}", f"{row['x_peer']:.3f}",
        )
        for row in rows
    ]  # fmt: skip
    columns = ("dtype", "m x k x n", "A, B", "how", "answered by", "us", "vendor, us", "x vendor")
    bad = frozenset(number for number, row in enumerate(rows) if id(row) in missed)
    return Table(f"The {len(rows)} worst shapes of matmul", columns, cells, bad)


def orthogonal(results: dict[str, Any], missed: set[int]) -> Table:
    """The fused passes and Cholesky QR, in passes: how often the block could have been copied in that time."""
    rows = [row for row in results["rows"] if operation_of(row) in ORTHOGONAL and row.get("median")]
    cells = [
        (
            operation_of(row), f"{row['K']} x {row['M']}", f"{row['condition']:.0e}" if row["condition"] else "",
            row["contender"], f"{row['median'] * 1e3:.3f}", f"{row['passes']:.2f}", f"{row['percent_bandwidth']:.1f}",
            f"{row['departure']:.1e}" if "departure" in row else "",
            f"{row['x_peer']:.2f}" if row.get("x_peer") else "", row["status"],
        )
        for row in rows
    ]  # fmt: skip
    columns = (
        "operation", "block", "condition", "contender", "ms", "passes", "% of bandwidth", "max of Q^H Q - I", "x peer",
        "status",
    )  # fmt: skip
    bad = frozenset(number for number, row in enumerate(rows) if id(row) in missed)
    return Table("Fused passes and Cholesky QR", columns, cells, bad)


MAKERS = (skinny, grid, worst, orthogonal)
