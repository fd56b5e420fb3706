"""Tables of sparse products and powers: every matrix with its bound, executions of powers."""

from __future__ import annotations

from typing import Any

from ..rows import OURS, Row
from ..table import Table
from .calls import DELTA16, EXECUTIONS, FORMS, INT32, ONE_THREAD, OWN_SPMV, PERMUTED, PLAIN, PLAIN_PERMUTED
from .gains import Found, allowed, by_case, gain, libraries, own_products, preparing, sparse

PRODUCTS, POWERS = "Sparse products", "Powers, times our own products"


def sizes(row: Row) -> str:
    """The matrix, and vectors or powers."""
    more = f", p = {row['inner']}" if row["inner"] else f", {row['N']} vectors" if row["N"] > 1 else ""
    return f"{row['form']}{more}"


def _us(found: Found, name: str) -> str:
    return f"{found[name]['median'] * 1e6:.1f}" if name in found else ""


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def products(results: dict[str, Any], missed: set[int]) -> Table:
    """One line per matrix: the library's choice beside its bound (table and figure 4.3)."""
    rows, cases, peers = sparse(results["rows"], "spmv"), by_case(results["rows"]), libraries(results["rows"])
    cells = []
    for row in rows:
        found = cases[row["case"]]
        cells.append((
            sizes(row), row["dtype"], str(row["rows"]), str(row["nnz"]), f"{row['nnz'] / row['rows']:.2f}",
            f"{row.get('stored', '')} {row.get('columns', '')}", f"{1 / row['intensity']:.2f}",
            f"{row['median'] * 1e6:.1f}", f"{100 * row['spread']:.1f}", f"{row['gflops']:.1f}",
            f"{row['bound_seconds'] * 1e6:.1f}", f"{row['percent_limit']:.1f}",
            *(_ratio(_over(found, name, OURS)) for name in peers), f"{row.get('error', 0):.1e}",
        ))  # fmt: skip
    columns = ("matrix", "dtype", "rows", "entries", "a row", "stored as", "B/FLOP", "us", "+- %", "GFLOP/s",
               "bound, us", "% of bound", *(f"x {name}" for name in peers), "error")  # fmt: skip
    return Table(PRODUCTS, columns, cells, _bad(rows, missed))


def by_format(results: dict[str, Any], missed: set[int]) -> Table:
    """Microseconds of a sparse product by each of our formats and by the peers."""
    rows, cases, peers = sparse(results["rows"], "spmv"), by_case(results["rows"]), libraries(results["rows"])
    own = [name for name in (*FORMS, ONE_THREAD) if any(name in found for found in cases.values())]
    cells = []
    for row in rows if own else ():
        found = cases[row["case"]]
        cells.append((
            sizes(row), row["dtype"], *(_us(found, name) for name in (OURS, *own, *peers)),
            f"{found[INT32]['percent_limit']:.1f}" if INT32 in found else "", _ratio(_over(found, INT32, DELTA16)),
        ))  # fmt: skip
    names = ("chosen", *(name.removeprefix(OURS).strip() for name in own), *peers)
    columns = ("matrix", "dtype", *names, "% of bound, int32", "16 over 32 bits")
    return Table("Sparse products by format, microseconds", columns, cells, _bad(rows, missed) if own else frozenset())


def _bad(rows: list[Row], missed: set[int]) -> frozenset[int]:
    return frozenset(number for number, row in enumerate(rows) if id(row) in missed)


def powers(results: dict[str, Any], missed: set[int]) -> Table:
    """One line per matrix and number of powers: the library's choice beside what the models expect."""
    rows, cases, peers = sparse(results["rows"], "powers"), by_case(results["rows"]), libraries(results["rows"])
    cells = []
    for row in rows:
        found = cases[row["case"]]
        own = own_products(found)
        cells.append((
            row["form"], str(row["inner"]), row.get("execution", ""), f"{row['median'] * 1e6:.1f}",
            f"{own * 1e6:.1f}" if own else "", _ratio(gain(found)), _ratio(row.get("predicted_speedup")),
            _ratio(allowed(found)), *(_ratio(_over(found, name, OURS)) for name in peers), f"{row['gflops']:.1f}",
            f"{row['passes']:.2f}", f"{row.get('error', 0):.1e}",
        ))  # fmt: skip
    columns = ("matrix", "p", "execution", "us", "own products, us", "x own", "by equation 4.8",
               "by 4.8, from products", *(f"x {name}" for name in peers), "GFLOP/s", "passes", "error")  # fmt: skip
    return Table(POWERS, columns, cells, _bad(rows, missed))


def executions(results: dict[str, Any], missed: set[int]) -> Table:
    """Factors of every execution over our own products, and what it takes to prepare them."""
    rows, cases = sparse(results["rows"], "powers"), by_case(results["rows"])
    cells = []
    for row in rows:
        found, took = cases[row["case"]], preparing(cases[row["case"]])
        if not took:
            continue
        cells.append((
            row["form"], str(row["inner"]), *(_ratio(gain(found, name)) for name in (PLAIN, OWN_SPMV, *EXECUTIONS)),
            _ratio(_over(found, PLAIN_PERMUTED, PERMUTED)), f"{took[0]:.2f}", f"{took[1]:.0f}",
        ))  # fmt: skip
    columns = ("matrix", "p", "plain", "SpMV", "groups", "groups, graph", "persistent", "permuted, over plain",
               "prepared, s", "in products")  # fmt: skip
    return Table("Executions of powers, times our own products", columns, cells)


def _over(found: Found, one: str, other: str) -> float | None:
    return found[one]["median"] / found[other]["median"] if one in found and other in found else None


MAKERS = (products, by_format, powers, executions)
