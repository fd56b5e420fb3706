"""Tables of factorizations: the worst of each range of sizes, every batch, ragged ones, and one small system."""

from __future__ import annotations

import statistics
from typing import Any

from .. import labels
from ..batched.summary import heads, line
from ..rows import OURS, Row, operation_of
from ..table import Table
from .operations import FACTORS, RAGGED, uniform_sizes

EVERY = "Every factorization"
NAMES = {
    "cholesky": "Cholesky", "lu": "LU", "qr": "QR", "qrq": "QR with Q", "solve": "solve", "inverse": "inverse",
    "determinant": "determinant", "eigh": "eigh", "eigvalsh": "eigvalsh", "svd": "svd", "svdvals": "svdvals",
    "tridiagonalize": "tridiagonalize", "bidiagonalize": "bidiagonalize",
}  # fmt: skip
RANGES = ((1, 8), (9, 16), (17, 32), (33, 64), (65, 128), (129, 512))


def sizes(row: Row) -> str:
    return f"1..{row['M']}" if row["form"] == RAGGED else str(row["M"])


def factors(rows: list[Row], operation: str | None = None) -> list[Row]:
    """Rows of ours with right results, of uniform batches out of cache."""
    return [
        row
        for row in rows
        if (operation_of(row) in FACTORS if operation is None else operation_of(row) == operation)
        and row["contender"] == OURS and row["status"] == "ok" and row["mode"] == "device" and not row["form"]
        and row["temperature"] == "cold"
    ]  # fmt: skip


def by_range(results: dict[str, Any], missed: set[int]) -> Table:
    """Worst and median per operation, dtype and range of sizes, and what was asked for."""
    rows, bad = factors(results["rows"]), set()
    cells: list[tuple[str, ...]] = []
    asked = ("target",) if any("wanted" in row for row in rows) else ()
    places = dict.fromkeys((operation_of(row), row["dtype"]) for row in rows)
    for operation, dtype in sorted(places, key=lambda place: (FACTORS.index(place[0]), place[1] != "float64")):
        for low, high in RANGES:
            inside = [r for r in factors(rows, operation) if r["dtype"] == dtype and low <= r["M"] <= high]
            if not inside:
                continue
            if any(id(row) in missed for row in inside):
                bad.add(len(cells))
            target = (_asked(inside[-1]) if dtype == "float64" else "",) if asked else ()
            cells.append((NAMES[operation], dtype, f"{low}-{high}", str(len(inside)), *_worst(inside), *target))
    columns = ("operation", "dtype", "n", "sizes", "% of bandwidth, min", "median", "of", "worst n", "GFLOP/s, max",
               "x peer, min", "median", "worst n", *asked)  # fmt: skip
    return Table("Factorizations by size", columns, cells, frozenset(bad))


def _asked(row: Row) -> str:
    wanted, signs = row.get("wanted", {}), {"percent_copy": "%", "x_peer": "x"}
    return ", ".join(f"{wanted[metric]:g} {sign}" for metric, sign in signs.items() if metric in wanted)


def _worst(rows: list[Row]) -> tuple[str, ...]:
    shares, worst = [row["percent_bandwidth"] for row in rows], min(rows, key=lambda row: row["percent_bandwidth"])
    fastest = max(row["gflops"] for row in rows)
    of = ", ".join(sorted({row["yardstick"] for row in rows}))
    texts = (f"{min(shares):.1f}", f"{statistics.median(shares):.1f}", of, str(worst["M"]), f"{fastest:.0f}")
    faced = [row for row in rows if row.get("x_peer")]
    if not faced:
        return (*texts, "no peer", "", "")
    least = min(faced, key=lambda row: row["x_peer"])
    return (*texts, labels.times_peer(least), f"{statistics.median(row['x_peer'] for row in faced):.2f}",
            str(least["M"]))  # fmt: skip


def every(results: dict[str, Any], missed: set[int]) -> Table:
    """Table with one line per batch."""
    rows = factors(results["rows"])
    cells = [(NAMES[operation_of(row)], row["dtype"], sizes(row), *line(row), row["yardstick"]) for row in rows]
    bad = frozenset(number for number, row in enumerate(rows) if id(row) in missed)
    return Table(EVERY, ("operation", "dtype", "n", *heads("bandwidth"), "bandwidth of"), cells, bad)


def ragged(results: dict[str, Any], missed: set[int]) -> Table:
    """Matrices of all sizes, beside equal ones with as much work."""
    rows = [
        row
        for row in results["rows"]
        if operation_of(row) in FACTORS and row["form"] == RAGGED and row["contender"] == OURS and row["status"] == "ok"
    ]
    cells = []
    for row in rows:
        size, count = uniform_sizes(row["M"], row["K"])
        share = f"{row['percent_uniform']:.1f}" if row.get("percent_uniform") else ""
        cells.append((NAMES[operation_of(row)], row["dtype"], sizes(row), *line(row), f"{count} of {size}", share))
    columns = ("operation", "dtype", "sizes", *heads("bandwidth"), "equal matrices", "% of their speed")
    bad = frozenset(number for number, row in enumerate(rows) if id(row) in missed)
    return Table("Factorizations of ragged batches", columns, cells, bad)


def one(results: dict[str, Any], missed: set[int]) -> Table:
    """One small system: microseconds per call of every contender."""
    rows = [row for row in results["rows"] if operation_of(row) in FACTORS and row["mode"] == "eager"]
    rows = [row for row in rows if row.get("median")]
    bad = frozenset(number for number, row in enumerate(rows) if id(row) in missed)
    cells = [
        (row["contender"], row["spelling"], sizes(row), f"{row['median'] * 1e6:.1f}", f"{100 * row['spread']:.1f}")
        for row in rows
    ]
    return Table("One system, called from Python", ("contender", "call", "n", "us", "+- %"), cells, bad)


MAKERS = (by_range, every, ragged, one)
