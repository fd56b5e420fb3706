"""Tables of sparse products and powers: every matrix with its bound, executions of powers, formats, caches."""

from __future__ import annotations

from typing import Any

from ...machine import spmv
from ..rows import OURS, Row
from ..table import Table
from .calls import EXECUTIONS, FORMS, ONE_THREAD, OWN_SPMV, PERMUTED, PLAIN, PLAIN_PERMUTED
from .gains import Found, allowed, by_case, gain, libraries, own_products, preparing, sparse
from .operations import matrix_bytes
from .targets import DELTA16, INT32

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
    """The same by our formats and by the peers."""
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


def formats(results: dict[str, Any], missed: set[int]) -> Table:
    """Chunks, lanes, sorting and index widths, one by one."""
    rows = sparse(results["rows"], "spmv", pinned=True)
    cells = [
        (row["form"], row["stored"], str(_lanes(row)), row["columns"], f"{row['storage'].get('padding', 1.0):.3f}",
         f"{row['median'] * 1e6:.1f}", f"{row['gflops']:.1f}", f"{row['bound_seconds'] * 1e6:.1f}",
         f"{row['percent_limit']:.1f}")
        for row in rows
    ]  # fmt: skip
    columns = ("matrix", "stored as", "lanes a row", "columns", "padding", "us", "GFLOP/s", "bound, us", "% of bound")
    return Table("Formats (Panzlaff, figures 3.2 to 3.8)", columns, cells)


def _lanes(row: Row) -> int:
    pins = row["pins"]
    return int(pins.get("threads") or (32 // pins["C"] if "C" in pins else row["config"].get("THREADS", 1)))


def ramp(results: dict[str, Any], missed: set[int]) -> Table:
    """Small matrices, in caches and beyond."""
    rows = [row for row in sparse(results["rows"], mode="graph") if row["set"] == "cache"]
    places = {(row["operation"], row["K"]): row for row in rows}
    cells = []
    for rows_of in sorted({row["K"] for row in rows}):
        line = [places.get((operation, rows_of)) for operation in ("spmv", "powers")]
        size = next(matrix_bytes(row) for row in line if row) / (1 << 20)
        texts = [f"{row[name]:.4g}" if row else "" for row in line for name in ("gflops", "gbytes_per_second")]
        cells.append((f"{size:.3g}", *texts, line[1].get("execution", "") if line[1] else ""))
    columns = ("matrix, MiB", "product, GFLOP/s", "GB/s", "five powers, GFLOP/s", "GB/s, matrix once", "execution")
    return Table("Ramp-up of band-27 (figures 4.4 and 4.6)", columns, cells)


def budget(results: dict[str, Any], missed: set[int]) -> Table:
    """Level groups of more and more of the cache."""
    rows = [row for row in sparse(results["rows"], "powers", pinned=True) if row["set"] == "budget"]
    cells = [
        (row["form"], str(row["pins"]["budget"]), str(row.get("groups", "")), f"{row['median'] * 1e6:.1f}",
         f"{row['gflops']:.1f}", f"{row.get('predicted_seconds', 0) * 1e6:.1f}")
        for row in rows
    ]  # fmt: skip
    columns = ("matrix", "budget, MiB", "groups", "us", "GFLOP/s", "by 4.8 and 4.12, us")
    return Table("Five powers by level groups (table 4.4, figure 4.8)", columns, cells)


def streams(results: dict[str, Any], missed: set[int]) -> Table:
    """The micro-benchmarks behind the models."""
    ceilings = results.get("ceilings")
    if results.get("family") != "powers" or not ceilings:
        return Table("", (), [])
    probes, found = ceilings["details"].get("probes", {}), []
    for name in ("read", "copy", "scale", "triad"):
        rates = [each["value"] for probe in (name, f"{name}_ring") for each in probes.get(probe, {}).values()]
        rate = max(rates, default=ceilings.get(f"{name}_bandwidth") or 0.0)
        found += [(name, f"{rate / 1e9:.1f} GB/s", "table 4.1")] if rate else []
    curve = ceilings["cache_bandwidth"]
    found += [(f"read of {size / (1 << 20):.4g} MiB", f"{rate / 1e9:.1f} GB/s", "figure 4.2") for size, rate in curve]
    fit = ceilings["details"].get("ramp", {})
    if "bandwidth" in fit:
        text = f"{fit['overhead_seconds'] * 1e6:.2f} us + bytes / {fit['bandwidth'] / 1e9:.0f} GB/s"
        found.append(("small kernels", text, "table 4.6"))
    if curve:
        ratio = max(rate for _, rate in curve) / ceilings["read_bandwidth"]
        gains = ", ".join(f"{p}: {spmv.powers_speedup(p, ratio):.2f}" for p in (2, 3, 4, 5, 8, 10))
        found.append((f"gain of p powers, caches {ratio:.2f} x the memory", gains, "table 4.5, by equation 4.8"))
    return Table("Streams, caches and small kernels", ("what", "measured", "of Panzlaff"), found)


MAKERS = (products, by_format, powers, executions, formats, ramp, budget, streams)
