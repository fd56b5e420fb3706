"""Tables of batches of small products: by range of sizes, every case with its bound, and few matrices. Those of other
operations are in tables.py.
"""

from __future__ import annotations

import statistics
from typing import Any

from .. import labels
from ..rows import OURS, Row, kernel_of, operation_of
from ..table import Table
from .operations import BATCHED, SOLVES

EVERY = "Every batch"
_RANGES = ((1, 8), (9, 18), (19, 31), (32, 32), (33, 128))


def largest(row: Row) -> int:
    return int(max(row["M"], row["N"], row["inner"]))


def inner_of(row: Row) -> int:
    """Columns of A."""
    return int(row["inner"] or row["M"])


def is_square(row: Row) -> bool:
    return bool(row["M"] == row["N"] == inner_of(row))


def sizes(row: Row) -> str:
    """m, n and k of a product; the sizes of another operation's matrices."""
    if operation_of(row) == "gemv":
        return f"{row['M']}x{inner_of(row)}"
    if operation_of(row) in SOLVES:
        return str(row["M"]) if row["N"] == 1 else f"{row['M']}, {row['N']} rhs"
    if operation_of(row) == "ragged":
        return f"1..{row['M']}" + (" x 1" if row["N"] == 1 else "")
    return f"{row['M']}x{row['N']}x{inner_of(row)}"


def batches(rows: list[Row], operation: str = "gemm") -> list[Row]:
    """Rows of ours with right results, of batches out of cache."""
    return [
        row
        for row in rows
        if operation_of(row) == operation and row["contender"] == OURS and row["status"] == "ok"
        and row["mode"] == "device" and row["temperature"] == "cold" and not row.get("pins")
    ]  # fmt: skip


def _kind(row: Row) -> str:
    return "A B + C" if row["accumulate"] else "A B" if is_square(row) else "A B, rectangular"


def by_range(results: dict[str, Any], missed: set[int]) -> Table:
    """Worst and median per kind, dtype and range of sizes."""
    rows = batches(results["rows"])
    cells: list[tuple[str, ...]] = []
    bad = set()
    for kind, dtype in dict.fromkeys((_kind(row), row["dtype"]) for row in rows):
        for low, high in _RANGES:
            inside = [r for r in rows if (_kind(r), r["dtype"]) == (kind, dtype) and low <= largest(r) <= high]
            if not inside:
                continue
            if any(id(row) in missed for row in inside):
                bad.add(len(cells))
            span = f"{low}-{high}" if low < high else str(low)
            cells.append((kind, dtype, span, str(len(inside)), *_worst_and_median(inside)))
    columns = ("product", "dtype", "size", "cases", "% of copy, min", "median", "worst", "% of limit, min",
               "x peer, min", "median", "worst")  # fmt: skip
    return Table("Batches by size", columns, cells, frozenset(bad))


def _worst_and_median(rows: list[Row]) -> tuple[str, ...]:
    shares, worst = [row["percent_bandwidth"] for row in rows], min(rows, key=lambda row: row["percent_bandwidth"])
    limit = min(row["percent_limit"] for row in rows)
    texts = (f"{min(shares):.1f}", f"{statistics.median(shares):.1f}", sizes(worst), f"{limit:.1f}")
    faced = [row for row in rows if row.get("x_peer")]
    if not faced:
        return (*texts, "no peer", "", "")
    least = min(faced, key=lambda row: row["x_peer"])
    middle = statistics.median(row["x_peer"] for row in faced)
    return (*texts, labels.times_peer(least), f"{middle:.2f}", sizes(least))


def line(row: Row) -> tuple[str, ...]:
    """Last cells of a table with a line per batch: time, speed, bound, best peer, error, kernel."""
    return (
        str(row["K"]), f"{row['median'] * 1e6:.1f}", f"{100 * row['spread']:.1f}", f"{row['gbytes_per_second']:.0f}",
        f"{row['percent_bandwidth']:.1f}", f"{row['percent_limit']:.1f}", f"{row['gflops']:.1f}",
        f"{row['bound_gflops']:.1f}", labels.times_peer(row),
        row.get("best_peer", ""), f"{row.get('error', 0):.1e}", kernel_of(row),
    )  # fmt: skip


def heads(bandwidth: str) -> tuple[str, ...]:
    """Names of the columns of `line`."""
    return ("matrices", "us", "+- %", "GB/s", f"% of {bandwidth}", "% of limit", "GFLOP/s", "P_max", "x peer",
            "best peer", "error", "kernel")  # fmt: skip


def every(results: dict[str, Any], missed: set[int]) -> Table:
    """Table with one line per batch: time, speed and bound."""
    rows = batches(results["rows"])
    cells = [(row["dtype"], sizes(row), "A B + C" if row["accumulate"] else "A B", *line(row)) for row in rows]
    bad = frozenset(number for number, row in enumerate(rows) if id(row) in missed)
    return Table(EVERY, ("dtype", "m, n, k", "product", *heads("copy")), cells, bad)


def few(results: dict[str, Any], missed: set[int]) -> Table:
    """Few matrices: microseconds per call of every contender."""
    rows = [
        row
        for row in results["rows"]
        if operation_of(row) in BATCHED and row["mode"] in ("graph", "eager") and row["status"] in ("ok", "missing")
    ]  # fmt: skip
    names = sorted({row["contender"] for row in rows}, key=lambda name: (name != OURS, name))
    cells: list[tuple[str, ...]] = []
    bad = set()
    for case in dict.fromkeys(row["case"] for row in rows):
        found = {row["contender"]: row for row in rows if row["case"] == case}
        first = next(iter(found.values()))
        if any(id(row) in missed for row in found.values()):
            bad.add(len(cells))
        medians = (found.get(name, {}).get("median") for name in names)
        times = (f"{median * 1e6:.1f}" if median else "missing" for median in medians)
        cells.append((operation_of(first), first["dtype"], sizes(first), str(first["K"]), first["mode"], *times))
    columns = ("operation", "dtype", "sizes", "matrices", "how", *names)
    return Table("Few matrices, microseconds per call", columns, cells, frozenset(bad))


MAKERS = (by_range, every, few)
