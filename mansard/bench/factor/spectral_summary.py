"""Tables of eigenvalues, singular values and reductions: microseconds per matrix beside the best peer, by size and by
the number of matrices."""

from __future__ import annotations

from typing import Any

from .. import doubtful, labels
from ..rows import OURS, Row, operation_of
from ..table import Table
from .operations import SPECTRAL

_COLUMNS = ("operation", "dtype", "n", "matrices", "us per matrix", "+- %", "M/s", "% of limit", "binds", "x peer",
            "best peer", "x approximate", "error")  # fmt: skip


def large(results: dict[str, Any], missed: set[int]) -> Table:
    """Batches out of cache."""
    return _table("Eigenvalues and singular values, large batches", results, missed, "cold")


def few(results: dict[str, Any], missed: set[int]) -> Table:
    """Few matrices, which caches may hold."""
    return _table("Eigenvalues and singular values, few matrices", results, missed, "hot")


def _table(title: str, results: dict[str, Any], missed: set[int], temperature: str) -> Table:
    rows = [
        row
        for row in results["rows"]
        if operation_of(row) in SPECTRAL and row["contender"] == OURS and row["status"] == "ok"
        and row["mode"] == "device" and row["temperature"] == temperature
    ]  # fmt: skip
    rows.sort(key=lambda row: (SPECTRAL.index(operation_of(row)), row["dtype"] != "float64", row["dtype"], row["M"]))
    bad = frozenset(number for number, row in enumerate(rows) if id(row) in missed)
    return Table(title, _COLUMNS, [_line(row) for row in rows], bad)


def _line(row: Row) -> tuple[str, ...]:
    each = row["median"] / row["K"]
    beside = f"{row['x_approximate']:.2f}" if row.get("x_approximate") else ""
    return (operation_of(row), row["dtype"], str(row["M"]), str(row["K"]), f"{each * 1e6:.4g}",
            f"{100 * row['spread']:.1f}", f"{1e-6 / each:.4g}", doubtful.percent(row), str(row.get("limit", "")),
            labels.times_peer(row), row.get("best_peer", ""), beside, f"{row.get('error', 0):.1e}")  # fmt: skip


MAKERS = (large, few)
