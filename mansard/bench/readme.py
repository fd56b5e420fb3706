"""Tables of docs/performance.md and README.md, written from `results/` between markers: `mansard report --readme`.

A table shows fixed sizes and, in its last column, the worst that was measured at any size. Footnotes say how old its
rows are, how many samples they have, and which marks it uses. The README's picture is drawn by `cover`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from ..plan.problem import ITEMSIZE
from . import extremes, freshness, labels, provenance, store, summary
from .batched.summary import batches, is_square
from .factor.summary import factors
from .readme_sets import FACTOR_SIZES, PRODUCT_SIZES, WIDTHS
from .rows import Row
from .sparse.entries import is_ours
from .sparse.gains import by_case, gain, sparse
from .table import Table

_DTYPES = ("float64", "complex128", "float32", "complex64")
_FACTORS = {"cholesky": "`cholesky`", "lu": "`lu_factor`", "qr": "`qr`, R and reflectors",
            "solve": "`solve`, one right-hand side", "inverse": "`inv`"}  # fmt: skip
_MATRICES = {
    "band-27": "band of 27", "27pt": "27-point stencil, 128 x 128 x 256", "HPCG": "HPCG", "graphene": "graphene",
    "topological": "topological insulator", "channel": "channel, 18 neighbours", "band-7": "band of 7",
    "7pt": "7-point stencil, 256^3", "Anderson": "Anderson, 256^3", "road": "road-like, 2.25 entries a row",
    "delaunay": "Delaunay triangulation", "Kronecker": "Kronecker graph",
}  # fmt: skip
_STALE, _DOUBTFUL = extremes.STALE, "!"
_BOUNDS = "best and worst"
Shown = tuple[Table, list[Row]]  # a table, and the rows of ours that it rests on


def tall(results: dict[str, Any]) -> Shown:
    """Per cent of the bandwidth at some widths M = N, and at the worst of all widths; the best peer below."""
    rows = summary.squares(results["rows"])
    cells: list[tuple[str, ...]] = []
    used: list[Row] = []
    for dtype in _DTYPES:
        mine = {row["M"]: row for row in rows if row["dtype"] == dtype}
        if not mine:
            continue
        worst = min(mine.values(), key=lambda row: row["percent_bandwidth"])
        shown = [mine.get(width) for width in WIDTHS]
        cells += _pair(dtype, shown, worst, f" at {worst['M']}")
        used += [row for row in (*shown, worst) if row]
    every = [row["M"] for row in rows]
    return Table("", ("M = N", *map(str, WIDTHS), f"worst of {min(every)} to {max(every)}"), cells), used


def products(results: dict[str, Any]) -> Shown:
    """Batches of square float64 products in per cent of the copy bandwidth; the best peer below."""
    rows = [row for row in batches(results["rows"]) if row["dtype"] == "float64" and not row["accumulate"]]
    mine = {row["M"]: row for row in rows if is_square(row) and row["M"] <= max(PRODUCT_SIZES)}
    worst = min(mine.values(), key=lambda row: row["percent_bandwidth"])
    shown = [mine.get(size) for size in PRODUCT_SIZES]
    columns = ("n", *map(str, PRODUCT_SIZES), f"worst of {min(mine)} to {max(mine)}")
    return Table("", columns, _pair("float64", shown, worst, f" at {worst['M']}")), [row for row in shown if row]


def _pair(dtype: str, shown: list[Row | None], worst: Row, where: str) -> list[tuple[str, ...]]:
    """Return two lines of a table, ours and the best peer's."""
    ours = (f"**{row['percent_bandwidth']:.0f}**{_age(row)}" if row else "" for row in (*shown, worst))
    peers = (_peer_share(row) if row else "" for row in (*shown, worst))
    *first, last = ours
    return [(f"{dtype}, Mansard", *first, last + where), (f"{dtype}, best peer", *peers)]


def _peer_share(row: Row) -> str:
    return f"{row['percent_bandwidth'] / row['x_peer']:.0f}{_signs(row)}" if row.get("x_peer") else ""


def factorizations(results: dict[str, Any]) -> Shown:
    """Per cent of the bandwidth and multiple of the best peer, at some sizes; the least multiple of all sizes."""
    cells: list[tuple[str, ...]] = []
    used: list[Row] = []
    for operation, label in _FACTORS.items():
        rows = [row for row in factors(results["rows"], operation) if row["dtype"] == "float64"]
        mine = {row["M"]: row for row in rows}
        shown = [mine.get(size) for size in FACTOR_SIZES]
        faced = [row for row in rows if row.get("x_peer")]
        if not faced:
            continue
        least = min(faced, key=lambda row: row["x_peer"])
        of = " or ".join(sorted({row["yardstick"] for row in shown if row}))
        texts = (f"{row['percent_bandwidth']:.0f}, {_times(row)}{_age(row)}" if row else "" for row in shown)
        cells.append((f"{label}, % of {of}", *texts, f"{_times(least)}{_age(least)} at {least['M']}"))
        used += [row for row in (*shown, least) if row]
    return Table("", ("n", *map(str, FACTOR_SIZES), "least x, any n"), cells), used


def _times(row: Row) -> str:
    """A multiple of the best peer with two digits."""
    if not row.get("x_peer"):
        return "no peer"
    times = float(row["x_peer"])
    return (f"{times:.0f}" if times >= 10 else f"{times:.1f}".removesuffix(".0")) + f" x{_signs(row)}"


def sparse_products(results: dict[str, Any]) -> Shown:
    """Products of every matrix in per cent of the read bandwidth and as multiples of cuSPARSE; five powers."""
    cases = by_case(results["rows"])
    found = {row["form"]: row for row in sparse(results["rows"], "spmv", dtype="float64", N=1)}
    powers = {row["form"]: row for row in sparse(results["rows"], "powers", dtype="float64", inner=5)}
    cells: list[tuple[str, ...]] = []
    used: list[Row] = []
    for form in (name for name in _MATRICES if name in found):
        row, power = found[form], powers.get(form)
        moved = row["nnz"] * (ITEMSIZE["float64"] + 4) + 2 * row["rows"] * ITEMSIZE["float64"]
        share = 100 * moved / row["median"] / row["read_bandwidth"]
        own = gain(cases[power["case"]]) if power else None
        cells.append((
            _MATRICES[form], f"{share:.0f}{_age(row)}{_stored(row)}", _over_peers(cases[row["case"]], row),
            f"{own:.2f}{_age(power)}" if own and power else "",
            _over_peers(cases[power["case"]], power) if power else "",
        ))  # fmt: skip
        used += [each for each in (row, power) if each]
    columns = ("matrix", "`A @ x`", "x cuSPARSE", "`matrix_powers(A, 5)`", "x cuSPARSE")
    return Table("", columns, cells), used


def _over_peers(found: dict[str, Row], row: Row) -> str:
    peers = [other["median"] for name, other in found.items() if not is_ours(name)]
    return f"{min(peers) / row['median']:.2f}" if peers else ""


def _stored(row: Row) -> str:
    if row.get("route") == "library" or row.get("origin") == "vendor":  # the latter in rows without a route
        return " (cuSPARSE itself)"
    if row.get("columns") == "delta16":
        return " (16-bit columns)"
    return " (ELLPACK)" if row.get("stored") == "ell" else ""


def _age(row: Row | None) -> str:
    """Marks behind a number: ° if the kernel has changed since, ! if it is more than the device can do."""
    if row is None:
        return ""
    return (_STALE if row.get("age") == freshness.STALE else "") + (_DOUBTFUL if row.get("doubtful") else "")


def _signs(row: Row) -> str:
    return "".join(labels.SIGNS[mark] for mark in row.get("peer_marks", ()))


def _status(rows: Iterable[Row]) -> str:
    """Footnotes of a table: age, samples and doubts of its rows, then a line for each mark."""
    rows = list({id(row): row for row in rows}.values())
    ages = [row["age"] for row in rows]
    parts = [f"{len(rows)} rows of ours: {ages.count(freshness.CURRENT)} by the present kernels"]
    if ages.count(freshness.HANDED_OVER):
        parts.append(f"{ages.count(freshness.HANDED_OVER)} handed over to a library")
    if ages.count(freshness.STALE):
        parts.append(f"{ages.count(freshness.STALE)} by kernels that have changed since ({_STALE})")
    if ages.count(freshness.UNKNOWN):
        parts.append(f"{ages.count(freshness.UNKNOWN)} of unknown age")
    few = sum(len(row["seconds"]) < provenance.SAMPLES for row in rows)
    parts += [f"{few} with fewer than {provenance.SAMPLES} samples"] if few else []
    wrong = sum(bool(row.get("doubtful")) for row in rows)
    parts += [f"{wrong} above 105 % of the limit, which is impossible ({_DOUBTFUL})"] if wrong else []
    seen = {mark for row in rows for mark in row.get("peer_marks", ())}
    legend = [f"{labels.SIGNS[mark]} {labels.LEGEND[mark]}" for mark in labels.LEGEND if mark in seen]
    return "".join(f"{line}.\n" for line in (", ".join(parts), *legend)).rstrip()


TABLES: dict[str, tuple[str, Callable[[dict[str, Any]], Shown]]] = {
    "gram": ("h200/gram", tall),
    "matmul": ("h200/matmul", tall),
    "batched": ("h200/batched", products),
    "factor": ("h200/factor", factorizations),
    "powers": ("h200/powers", sparse_products),
}


def block(name: str, results: Path) -> str:
    """Render a table and its footnotes, as they stand between the table's markers in the page."""
    folder, make = TABLES[name]
    table, rows = make(freshness.mark(store.load(results / folder)))
    return f"{table.markdown()}\n\n{_status(rows)}"


def filled(text: str, results: Path) -> str:
    """Return the text of a page with its tables made from `results`; ValueError names a marker that is missing."""
    made: dict[str, Callable[[], str]] = {name: partial(block, name, results) for name in TABLES}
    return _placed(text, made | {_BOUNDS: lambda: extremes.blocks(results / "h200")["all"]})


def front(text: str, results: Path) -> str:
    """Return the text of README.md with its table of best and worst cases made from `results`."""
    return _placed(text, {_BOUNDS: lambda: extremes.blocks(results / "h200")["short"]})


def _placed(text: str, tables: dict[str, Callable[[], str]]) -> str:
    """The text with tables between their markers; all markers are looked for before a table is made."""
    markers = {name: (f"<!-- table {name}: mansard report --readme -->", f"<!-- end of table {name} -->")
               for name in tables}  # fmt: skip
    for begin, end in markers.values():
        if end not in text.partition(begin)[2]:
            raise ValueError(f"the page has no '{begin}' ... '{end}'")
    for name, (begin, end) in markers.items():
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{tables[name]()}\n{end}{rest.partition(end)[2]}"
    return text


def results_of(page: Path) -> Path:
    """Return the nearest folder `results` beside the page or above it."""
    above = [folder / "results" for folder in page.resolve().parents]
    return next((folder for folder in above if folder.is_dir()), above[0])
