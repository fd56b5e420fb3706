"""Tables of operations on batches beside products: matrices times vectors, triangular systems, ragged batches."""

from __future__ import annotations

from typing import Any

from ..rows import Row, operation_of
from ..table import Table
from .operations import uniform_sizes, whole_bytes
from .summary import EVERY, batches, heads, line, sizes

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


def _bad(rows: list[Row], missed: set[int]) -> frozenset[int]:
    return frozenset(number for number, row in enumerate(rows) if id(row) in missed)


MAKERS = (vectors, systems, ragged)
