"""Tables from rows: per dtype and range of widths the worst and the median, the worst width by its name."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import doubtful, freshness, greenup, labels, provenance
from .batched import summary as batched_summary
from .batched import tables as batched_tables
from .batched.operations import BATCHED
from .declared.operations import DECLARED, written_sizes
from .factor import spectral_summary
from .factor import summary as factor_summary
from .factor.operations import FACTORS
from .operations import TALL
from .rows import OURS, Row, kernel_of, operation_of
from .sparse import summary as sparse_summary
from .sparse.operations import SPARSE
from .table import Table
from .tall_skinny import matmul_summary

RANGES = ((1, 8), (9, 16), (17, 32), (33, 48), (49, 64), (65, 128))


def ours(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Our right rows with these values, pinned experiments left out unless asked for."""
    return [
        row for row in rows
        if row["contender"] == OURS and row["status"] == "ok" and bool(row.get("pins")) == bool(wanted.get("pinned"))
        and all(row[name] == value for name, value in wanted.items() if name != "pinned")
    ]  # fmt: skip


def squares(rows: Iterable[Row]) -> list[Row]:
    """M = N, row-major, out of cache: the paper's case."""
    return [row for row in tall(rows) if row["M"] == row["N"] and row["layout"] == "row" and not row["same"]]


def tall(rows: Iterable[Row]) -> list[Row]:
    """All of ours that have a width and are as long as memory allows."""
    return [row for row in ours(rows, mode="device") if operation_of(row) in TALL and row["set"] != "tsm2l"]


def by_range(results: dict[str, Any], missed: set[int]) -> Table:
    """Worst and median per dtype and range of widths. `missed` holds ids of rows that miss a target."""
    cells: list[tuple[str, ...]] = []
    bad = set()
    rows = squares(results["rows"])
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        for low, high in RANGES:
            inside = [row for row in rows if row["dtype"] == dtype and low <= row["M"] <= high]
            if not inside:
                continue
            if any(id(row) in missed for row in inside):
                bad.add(len(cells))
            widths = f"{len(inside)}{doubtful.among(inside)}"
            cells.append((dtype, f"{low}-{high}", widths, *_worst_and_median(inside)))
    columns = (
        "dtype",
        "M = N",
        "widths",
        "% of limit, min",
        "median",
        "worst",
        "% of bandwidth, min",
        "median",
        "x peer, min",
        "median",
        "worst",
    )
    return Table("By width", columns, cells, frozenset(bad))


def _worst_and_median(rows: list[Row]) -> tuple[str, ...]:
    worst = min(rows, key=lambda row: row["percent_limit"])
    limits, reads = [row["percent_limit"] for row in rows], [row["percent_bandwidth"] for row in rows]
    texts = (
        f"{min(limits):.1f}",
        f"{statistics.median(limits):.1f}",
        f"M={worst['M']}",
        f"{min(reads):.1f}",
        f"{statistics.median(reads):.1f}",
    )
    faced = [row for row in rows if row.get("x_peer")]
    if not faced:
        return (*texts, "no peer", "", "")
    least = min(faced, key=lambda row: row["x_peer"])
    middle = statistics.median(row["x_peer"] for row in faced)
    return (*texts, labels.times_peer(least), f"{middle:.2f}", f"M={least['M']}")


def each(
    results: dict[str, Any], missed: set[int], chosen: list[Row] | None = None, title: str = "Every case"
) -> Table:
    """Table with one line per case of ours."""
    chosen = ours(results["rows"]) if chosen is None else chosen
    cells: list[tuple[str, ...]] = []
    bad = set()
    for number, row in enumerate(chosen):
        if id(row) in missed:
            bad.add(number)
        cells.append((
            row["dtype"], sizes(row), f"{row['K']}", _how(row),
            f"{row['median'] * 1e6:.1f}", f"{100 * row['spread']:.1f}", f"{row.get('gbytes_per_second', 0):.0f}",
            f"{row.get('percent_bandwidth', 0):.1f}", row.get("yardstick", ""), doubtful.percent(row),
            labels.times_peer(row), row.get("best_peer", ""), f"{row.get('error', 0):.1e}", kernel_of(row),
        ))  # fmt: skip
    columns = (
        "dtype",
        "M x N",
        "K",
        "how",
        "us",
        "+- %",
        "GB/s",
        "% of bandwidth",
        "of",
        "% of limit",
        "x peer",
        "best peer",
        "error",
        "kernel",
    )
    return Table(title, columns, cells, frozenset(bad))


def sizes(row: Row) -> str:
    if operation_of(row) in SPARSE:
        return sparse_summary.sizes(row)
    if operation_of(row) in FACTORS:
        return factor_summary.sizes(row)
    if operation_of(row) in DECLARED:
        return written_sizes(row)
    return batched_summary.sizes(row) if operation_of(row) in BATCHED else f"{row['M']} x {row['N']}"


def _how(row: Row) -> str:
    words = [row["layout"]] if row["layout"] != "row" else []
    words += ["gram(A)"] if row["same"] else []
    words += [operation_of(row)] if operation_of(row) not in TALL else []
    words += ["beta = 1"] if row.get("accumulate") else []
    words += [row["form"]] if row.get("form") and operation_of(row) not in SPARSE else []
    words += [row["mode"], row["temperature"]] if row["mode"] != "device" else []
    return " ".join(words) or "row"


def short(results: dict[str, Any], missed: set[int]) -> Table:
    """Few rows: microseconds per call of every contender."""
    rows = [
        row
        for row in results["rows"]
        if row["mode"] in ("graph", "eager") and not row.get("pins") and row["status"] in ("ok", "missing")
        and operation_of(row) in TALL
    ]  # fmt: skip
    rows.sort(key=lambda row: (row["dtype"] != "float64", row["mode"] == "eager", row["temperature"], row["K"],
                               row["M"]))  # fmt: skip
    names = sorted({row["contender"] for row in rows}, key=lambda name: (name != OURS, name))
    cells: list[tuple[str, ...]] = []
    bad = set()
    for case in dict.fromkeys(row["case"] for row in rows):
        found = {row["contender"]: row for row in rows if row["case"] == case}
        first = next(iter(found.values()))
        if any(id(row) in missed for row in found.values()):
            bad.add(len(cells))
        times = (
            f"{found[name]['median'] * 1e6:.1f}" if found.get(name, {}).get("median") else "missing" for name in names
        )
        cells.append((first["dtype"], first["mode"], first["temperature"], f"{first['K']}", f"{first['M']}", *times))
    columns = ("dtype", "how", "operands", "K", "M = N", *names)
    return Table("Few rows, microseconds per call", columns, cells, frozenset(bad))


def sustained(results: dict[str, Any], missed: set[int]) -> Table:
    """Calls one behind the other: speed, and the clock the power limit leaves."""
    rows = [row for row in results["rows"] if row["mode"] == "sustained" and row.get("median")]
    cells = [
        (
            row["dtype"],
            str(row["M"]),
            row["contender"],
            f"{row['median'] * 1e6:.0f}",
            f"{row['percent_bandwidth']:.1f}",
            f"{row.get('mhz', '')}",
            f"{row.get('watts', '')}",
            row.get("slowed_by", ""),
        )
        for row in rows
    ]
    columns = ("dtype", "M = N", "contender", "us", "% of bandwidth", "SM MHz", "watts", "slowed by")
    return Table("Sustained: without rests between calls", columns, cells)


def host(results: dict[str, Any], missed: set[int]) -> Table:
    """Table of the cost of a call for the caller."""
    rows = [row for row in results["rows"] if row["mode"] == "host" and row.get("median")]
    base = rows[0]["median"] if rows else 0.0
    cells = [
        (
            row["contender"],
            f"{row['median'] * 1e6:.2f}",
            f"{100 * row['spread']:.1f}",
            f"{(row['median'] - base) * 1e6:+.2f}",
        )
        for row in rows
    ]
    bad = frozenset(number for number, row in enumerate(rows) if id(row) in missed)
    return Table("Cost of a call for the caller", ("call", "us", "+- %", "above the cheapest launch, us"), cells, bad)


def others(results: dict[str, Any], missed: set[int]) -> Table:
    """Table of rectangles, gram(A) and other layouts."""
    rows = [row for row in tall(results["rows"]) if row["M"] != row["N"] or row["same"] or row["layout"] != "row"]
    return each(results, missed, rows, "Rectangles, gram(A), other layouts")


def below(missed: list[tuple[Row, str]], has_targets: bool) -> Table:
    """Rows that are wrong, failed or miss a target."""
    cells = [(_name(row), _how(row), text) for row, text in missed]
    title = "Below target" if has_targets else "Wrong or failed"
    return Table(title, ("case", "how", "found"), cells, frozenset(range(len(cells))))


def unfinished(results: dict[str, Any]) -> Table:
    """Table of the cases that the time limit left out."""
    return Table("Not measured, out of time", ("case",), [(name,) for name in results["unfinished"]])


def compiling(results: dict[str, Any], missed: set[int]) -> Table:
    """What compiling a family's kernels took, of all in the cache when the last run ended."""
    found = results.get("compiling", {})
    cells = [
        (family, f"{one['kernels']}", f"{one['seconds'] / one['kernels']:.2f}", f"{one['slowest']:.2f}")
        for family, one in found.items()
        if one["kernels"]
    ]
    return Table("Compiling: kernels in the cache", ("family", "kernels", "seconds, mean", "slowest"), cells)


def runs(results: dict[str, Any], missed: set[int]) -> Table:
    """The runs that the rows are from: when, on which card, of which commit, and with how many samples."""
    cells = []
    for run in results.get("runs", ()):
        shown = [row for row in results["rows"] if row.get("run") == run["run"] and row["seconds"]]
        if not shown:
            continue
        about, samples = run["environment"], [len(row["seconds"]) for row in shown]
        span = f"{min(samples)} to {max(samples)}" if min(samples) < max(samples) else str(samples[0])
        cells.append((
            str(run["run"]), str(about.get("date", "")), str(about.get("device", "")),
            str(about.get("card", "") or "not recorded"), provenance.verdict(about), str(len(shown)), span,
            str(about.get("command", "")),
        ))  # fmt: skip
    columns = ("run", "date", "device", "card", "commit", "rows shown", "samples", "command")
    return Table("Runs", columns, cells)


def _name(row: Row) -> str:
    if row["mode"] == "host":
        return "overhead"
    more = f", condition {row['condition']:g}" if row.get("condition") else ""
    return f"{row['dtype']} {sizes(row)}, K = {row['K']}{more}"


Maker = Callable[[dict[str, Any], set[int]], Table]


def tables(results: dict[str, Any], missed: set[int], added: Sequence[Maker] = ()) -> list[Table]:
    """Every table of the report that has content."""
    makers = (by_range, others, short, sustained, host, *matmul_summary.MAKERS, *batched_summary.MAKERS,
              *batched_tables.MAKERS, *factor_summary.MAKERS, *spectral_summary.MAKERS, *sparse_summary.MAKERS, *added,
              greenup.table, doubtful.table, freshness.table, compiling, runs)  # fmt: skip
    return [table for table in (maker(results, missed) for maker in makers) if table.cells]
