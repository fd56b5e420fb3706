"""Tables of TSM2's """

from __future__ import annotations

from typing import Any

from mansard.bench.rows import of_set
from mansard.bench.table import Table

from .choices import choices, parameters_of, step_of


def steps(results: dict[str, Any], missed: set[int]) -> Table:
    """TSM2's figure 6 in numbers: per cent of the bandwidth of each step and of the best peer."""
    rows = of_set(results["rows"], "steps")
    names = list(dict.fromkeys(map(step_of, rows)))
    cells = []
    for dtype, side, n in dict.fromkeys((row["dtype"], row["M"], row["N"]) for row in rows):
        found = {
            step_of(row): row for row in rows if (row["dtype"], row["M"], row["N"]) == (dtype, side, n)
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
    for each in choices(results["rows"]):
        row, best = each.chosen, each.best
        if id(row) in missed:
            bad.add(len(cells))
        cells.append((
            row["dtype"], str(row["M"]), str(row["N"]), parameters_of(row),
            f"{row['percent_bandwidth']:.1f}", parameters_of(best), f"{best['percent_bandwidth']:.1f}",
            str(each.tried), f"{100 * each.share:.1f}",
        ))  # fmt: skip
    columns = ("dtype", "m = k", "n", "the model's choice", "% of bandwidth", "the best", "% of bandwidth", "of",
               "choice / best, %")  # fmt: skip
    return Table("TSM2's model against the search", columns, cells, frozenset(bad))
