"""Best and worst published row of every operation: the table of README.md and of docs/performance.md.

A line has the largest and the smallest share of the bandwidth and multiple of the best peer among all rows of an
operation: every size and dtype, rows or columns adjacent, operands out of the cache, the library's own choice. Rows
above 105 % of the limit that nothing explains are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..plan.problem import ITEMSIZE
from . import freshness, labels, store
from .batched.summary import batches, is_square
from .factor.summary import factors
from .rows import OURS, Row, operation_of
from .sparse.gains import by_case, gain, sparse
from .table import Table

STALE = "°"
_STALE_NOTE = {STALE: "the kernel has changed since"}
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Line:
    """An operation of the table: its name, the folder of its rows, and which of them count."""

    label: str
    folder: str
    chosen: Callable[[Rows], Rows]
    share: str = "percent_bandwidth"  # the column of the best and least share; empty: multiples of the peer alone
    in_readme: bool = True


def blocks(results: Path) -> dict[str, str]:
    """The table and its footnotes from the folders of a device: the README's lines, and all."""
    cells: list[tuple[str, str, str]] = []
    short: list[tuple[str, str, str]] = []
    loaded: dict[str, dict[str, Any]] = {}
    for line in LINES:
        if line.folder not in loaded:
            loaded[line.folder] = store.load(results / line.folder)
        found = loaded[line.folder]
        rows = [row for row in line.chosen(found["rows"]) if not row.get("doubtful")]
        backend = found["environment"].get("backend", "")
        best, worst = (_end(rows, line.share, pick, backend) for pick in (max, min))
        cells.append((line.label, best, worst))
        short += cells[-1:] if line.in_readme else []
    return {"short": _written(short), "all": _written(cells)}


def _written(cells: list[tuple[str, str, str]]) -> str:
    text = "".join(map("".join, cells))
    legend = {labels.SIGNS[mark]: note for mark, note in labels.LEGEND.items()} | _STALE_NOTE
    notes = "; ".join(f"{sign} {meaning}" for sign, meaning in legend.items() if sign in text)
    return Table("", ("operation", "best", "worst"), cells).markdown() + (f"\n\n{notes}." if notes else "")


def _end(rows: Rows, share: str, pick: Callable[..., Row], backend: str) -> str:
    """The best or the worst of rows: share of the bandwidth, then multiple of the best peer, each with its place."""
    parts = []
    if share:
        row = pick(rows, key=lambda row: row[share])
        of = f" of {row['yardstick']}" if row.get("yardstick") and pick is max else ""
        parts.append(f"{row[share]:.0f} %{of} {_place(row)}{_age(row, backend)}")
    if faced := [row for row in rows if row.get("x_peer")]:
        plain = [row for row in faced if not row.get("peer_marks")]  # of a best case with marks only if all have some
        row = pick(plain if plain and pick is max else faced, key=lambda row: row["x_peer"])
        signs = "".join(labels.SIGNS[mark] for mark in row.get("peer_marks", ()))
        parts.append(f"{times(row['x_peer'])} x{signs} {_place(row)}{_age(row, backend)}")
    return "; ".join(parts)


def times(value: float) -> str:
    """A multiple with two digits."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1.1 else f"{value:.2f}"


def _place(row: Row) -> str:
    """Where a row is: "at 41 (complex64, column-major)"; a matrix by its name."""
    if row.get("nnz"):
        return f"({row['form']})"
    about = [row["dtype"]] if row["dtype"] != "float64" else []
    about += ["column-major"] if row.get("layout") == "col" else []
    return f"at {row['M']}" + (f" ({', '.join(about)})" if about else "")


def _age(row: Row, backend: str) -> str:
    return STALE if freshness.age(row, backend) == freshness.STALE else ""


def _tall(operation: str) -> Callable[[Rows], Rows]:
    """Tall products of two matrices with as many columns, 1 to 64, without padding between rows."""
    def chosen(rows: Rows) -> Rows:
        return [row for row in rows if row["contender"] == OURS and row["status"] == "ok" and not row["pins"]
                and operation_of(row) == operation and row["M"] == row["N"] <= 64 and row["mode"] == "device"
                and row["temperature"] == "cold" and row["layout"] in ("row", "col") and not row["same"]]  # fmt: skip
    return chosen


def _stacks(rows: Rows) -> Rows:
    return [row for row in batches(rows) if is_square(row) and not row["accumulate"] and row["M"] > 1]


def _of(*operations: str) -> Callable[[Rows], Rows]:
    return lambda rows: [row for operation in operations for row in factors(rows, operation)]


def _batched(operation: str) -> Callable[[Rows], Rows]:
    def chosen(rows: Rows) -> Rows:
        return [row for row in rows if row["contender"] == OURS and row["status"] == "ok" and not row["pins"]
                and operation_of(row) == operation and row["temperature"] == "cold"]  # fmt: skip
    return chosen


def _products(rows: Rows) -> Rows:
    """Products of sparse matrices, with the share of the read bandwidth at 12 bytes an entry and 16 a row."""
    cases, item = by_case(rows), ITEMSIZE["float64"]
    found = sparse(rows, "spmv", dtype="float64", N=1)
    return [row | {"share": 100 * (row["nnz"] * (item + 4) + 2 * row["rows"] * item) / row["median"]
                   / row["read_bandwidth"], "yardstick": "read", "x_peer": _over_peers(cases, row)}
            for row in found]  # fmt: skip


def _powers(rows: Rows) -> Rows:
    """Five powers; the "peer" is as many products of our own."""
    cases = by_case(rows)
    found = sparse(rows, "powers", dtype="float64", inner=5)
    return [row | {"x_peer": own} for row in found if (own := gain(cases[row["case"]]))]


def _over_peers(cases: dict[str, dict[str, Row]], row: Row) -> float:
    from .sparse.entries import is_ours

    peers: Iterable[float] = (other["median"] for name, other in cases[row["case"]].items() if not is_ours(name))
    return float(min(peers, default=0.0) / row["median"])


LINES = (
    Line("`gram(A, B)`, 1 to 64 columns", "gram", _tall("gram")),
    Line("`matmul(A, C)`, tall A, 1 to 64 columns", "matmul", _tall("tsmm")),
    Line("`matmul` of stacks, 2 to 128 rows", "batched", _stacks),
    Line("`linalg.cholesky`, to 512 rows", "factor", _of("cholesky")),
    Line("`linalg.lu_factor`, to 512 rows", "factor", _of("lu"), in_readme=False),
    Line("`linalg.qr`, R and reflectors, to 512 rows", "factor", _of("qr"), in_readme=False),
    Line("`linalg.solve`, one right-hand side", "factor", _of("solve")),
    Line("`linalg.inv`", "factor", _of("inverse"), in_readme=False),
    Line("`linalg.eigh`, `eigvalsh`, to 128 rows", "two_sided", _of("eigh", "eigvalsh"), ""),
    Line("`linalg.svd`, `svdvals`, to 128 rows", "two_sided", _of("svd", "svdvals"), ""),
    Line("`matvec` of stacks", "batched", _batched("gemv"), in_readme=False),
    Line("triangular systems of stacks, one right-hand side", "batched", _batched("trsv"), in_readme=False),
    Line("triangular systems of stacks, several", "batched", _batched("trsm"), in_readme=False),
    Line("sparse `A @ x`", "powers", _products, "share"),
    Line("`matrix_powers(A, 5)`, x five products", "powers", _powers, ""),
)
