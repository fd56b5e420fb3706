"""Tables of matmul's sets: large times skinny, TSM2's steps and model, the grid of shapes, the fused passes."""

from __future__ import annotations

import statistics
from typing import Any

from ..operations import ORTHOGONAL
from ..rows import Row, operation_of
from ..table import Table
from . import experiments

_WORST = 10


def skinny(results: dict[str, Any], missed: set[int]) -> Table:
    """tsm2r: per cent of the read bandwidth, and times the best peer, for every width."""
    rows = experiments.of_set(results["rows"], "tsm2r")
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


def steps(results: dict[str, Any], missed: set[int]) -> Table:
    """TSM2's figure 6 in numbers: per cent of the bandwidth of each step and of the best peer."""
    rows = experiments.of_set(results["rows"], "steps")
    names = list(dict.fromkeys(map(experiments.step_of, rows)))
    cells = []
    for dtype, side, n in dict.fromkeys((row["dtype"], row["M"], row["N"]) for row in rows):
        found = {
            experiments.step_of(row): row for row in rows if (row["dtype"], row["M"], row["N"]) == (dtype, side, n)
        }
        peer = next((row for row in found.values() if row.get("x_peer")), None)
        shares = (f"{found[name]['percent_bandwidth']:.1f}" if name in found else "" for name in names)
        best = f"{peer['percent_bandwidth'] / peer['x_peer']:.1f}" if peer else ""
        cells.append((dtype, str(side), str(n), *shares, best, peer["best_peer"] if peer else ""))
    columns = ("dtype", "m = k", "n", *names, "best peer", "")
    return Table("The steps of TSM2, column-major: % of bandwidth", columns, cells)


def model(results: dict[str, Any], missed: set[int]) -> Table:
    """TSM2's model: what it chose and what was best."""
    cells: list[tuple[str, ...]] = []
    bad = set()
    for each in experiments.choices(results["rows"]):
        row, best = each.chosen, each.best
        if id(row) in missed:
            bad.add(len(cells))
        cells.append((
            row["dtype"], str(row["M"]), str(row["N"]), experiments.parameters_of(row),
            f"{row['percent_bandwidth']:.1f}", experiments.parameters_of(best), f"{best['percent_bandwidth']:.1f}",
            str(each.tried), f"{100 * each.share:.1f}",
        ))  # fmt: skip
    columns = ("dtype", "m = k", "n", "the model's choice", "% of bandwidth", "the best", "% of bandwidth", "of",
               "choice / best, %")  # fmt: skip
    return Table("TSM2's model against the search", columns, cells, frozenset(bad))


def grid(results: dict[str, Any], missed: set[int]) -> Table:
    """How many shapes keep up with the vendor's own call, by who answered."""
    rows = experiments.grid(results["rows"])
    cells: list[tuple[str, ...]] = []
    bad = set()
    groups = sorted({(row["mode"], row["dtype"], row.get("family", "")) for row in rows})
    for mode, dtype, family in groups:
        ratios = [r["x_peer"] for r in rows if (r["mode"], r["dtype"], r.get("family", "")) == (mode, dtype, family)]
        within = sum(ratio >= experiments.SLOWER for ratio in ratios)
        if within < len(ratios):
            bad.add(len(cells))
        spread = (f"{min(ratios):.2f}", f"{statistics.median(ratios):.2f}", f"{max(ratios):.2f}")
        cells.append((mode, dtype, family, str(len(ratios)), str(within), *spread))
    columns = ("how", "dtype", "answered by", "shapes", "at most 3 % slower", "x vendor, min", "median", "max")
    shapes = len({(row["M"], row["K"], row["N"], row["layout"]) for row in rows})
    return Table(f"matmul on {shapes} shapes against the vendor's own call", columns, cells, frozenset(bad))


def worst(results: dict[str, Any], missed: set[int]) -> Table:
    """The shapes of the grid that come off worst."""
    rows = experiments.grid(results["rows"])[:_WORST]
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


MAKERS = (skinny, steps, model, grid, worst, orthogonal)
