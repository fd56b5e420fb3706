"""`mansard report`: one page that needs nothing else (`index.html`, pictures inside) and `summary.md`, from results."""

from __future__ import annotations

import argparse
import base64
import html
from pathlib import Path
from typing import Any

from ..errors import UsageError
from . import doubtful, freshness, labels, provenance, store, summary, targets
from .table import Table

_TITLES = {
    "percent_of_limit": "Share of the roofline limit against the width (the paper's figures 3 and 18; of A C 4 and 23)",
    "tile_size": "Speed against tile size (figure 16)",
    "leapfrog_transposed": "Leap-frogging and transposed mapping (figure 15)",
    "reduction": "Cost of the reduction against the number of rows (figure 19)",
    "few_rows": "Few rows",
    "overhead": "What a call costs the caller",
    "roofline": "Roofline",
    "skinny": "Large A times skinny B: share of the read bandwidth, and times cuBLAS (TSM2R)",
    "steps": "The steps of TSM2 (its figure 6)",
    "model": "TSM2's model: its choice against all that were tried",
    "grid": "matmul against the vendor's own call, shape by shape",
    "source": "Where C is read from (Ernst et al., figure 20)",
    "unroll": "Rows per thread at once (figure 21)",
    "threads": "Threads per row (figure 22)",
    "batched": "Batches of small products: share of the copy bandwidth, that is of P_max, against the size",
    "batched_speed": "Batches of small products: speed under the bound P_max (Masliah et al., figures 5 and 8)",
    "gemv": "Batches of matrices times vectors (Dong, figures 3.19 to 3.29)",
    "trsv": "Batches of triangular systems: forward and backward substitution (Dong, figures 4.4 and 4.5)",
    "trsm": "Batches of triangular systems with several right-hand sides",
    "ragged": "Batches of matrices of all sizes (Dong, figure 3.30)",
    "tba": "Several matrices per block (Masliah et al., figure 6b)",
    "readonly": "Through the read-only cache (Masliah et al.)",
    "kernels": "Kernels for updates of rank 8, 16 and 32 (Dong, figures 3.12 to 3.14)",
    "streamed": "Batched and one by one in streams (Dong, figures 3.15 and 3.16)",
    "factor": "Factorizations of batches: share of the copy bandwidth against the size",
    "factor_speedup": "Factorizations of batches: times the best peer",
    "factor_dtypes": "Factorizations of batches: share of the copy bandwidth of all dtypes",
    "factor_steps": "Factorizations of 2,000 matrices, step by step (Dong, figures 4.1 to 4.3)",
    "spmv": "Sparse products: share of the model's bound (Panzlaff, figure 4.3)",
    "powers": "Powers over as many products of our own (figures 4.5 and 4.9)",
    "formats": "Chunks, lanes per row and sorting (figures 3.2 to 3.8)",
    "ramp": "How small matrices and small kernels gain speed (figures 4.1, 4.2, 4.4, 4.6 and 4.10)",
    "counters": "Occupancy and efficiency of loads, computed, not counted (Masliah et al., figures 7 and 8)",
}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; font-size: 13px; margin: .6em 0 1.6em; }
th, td { padding: .25em .7em; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th { background: #f3f5f7; } td:first-child, th:first-child { text-align: left; }
tr.bad td { background: #fbe3dc; } img { max-width: 100%; } .bad { color: #a33a00; } .wide { overflow-x: auto; }
"""


_PRODUCTS = {"gram": "gram: A^H B", "matmul": "matmul: A B", "batched": "batched: small matrices, many of them",
             "factor": "factor: Cholesky, LU, QR, systems and inverses of many matrices",
             "powers": "powers: sparse matrices times vectors, and their powers"}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "folder with results, or with folders that have some (default: ./report)"
    parser.add_argument("folder", nargs="?", type=Path, default=Path("report"), help=text)
    parser.add_argument("--to", type=Path, help="write the report to another folder")
    text = f"compress the journal: lines of {store.JOURNAL} go to the end of {store.JOURNAL}.gz"
    parser.add_argument("--pack", action="store_true", help=text)
    text = "only write the tables of this README (default: ./README.md), from the folders in results/ beside it"
    parser.add_argument("--readme", type=Path, nargs="?", const=Path("README.md"), help=text)


def run(args: argparse.Namespace) -> int:
    if args.readme is not None:
        return _write_readme(args.readme)
    for folder in store.folders(args.folder):
        if args.pack:
            store.pack(folder)
        to = args.to and args.to / folder.relative_to(args.folder)
        here = to is None and store.has_journal(folder)
        results = store.write_results(folder) if here else store.load(folder)
        print(f"report: {write_report(results, to or folder)}")
    return 0


def _write_readme(path: Path) -> int:
    from . import readme

    try:
        path.write_text(readme.filled(path.read_text(), path.parent / "results"))
    except ValueError as error:
        raise UsageError(f"--readme {path}: {error}") from None
    print(f"tables: {path}")
    return 0


def write_report(results: dict[str, Any], folder: Path) -> Path:
    """Pictures, `summary.md` and `index.html` in `folder`; returns the page's path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    results = freshness.mark(results)
    pictures, without = _pictures(results, folder / "plots")
    missed = targets.misses(results)
    tables = summary.tables(results, {id(row) for row, _ in missed})
    tables += [summary.below(missed)] if missed else []
    tables += [summary.unfinished(results)] if results["unfinished"] else []
    facts, notes = _facts(results), _notes(results, missed, without)
    everything = summary.each(results, {id(row) for row, _ in missed})
    (folder / "summary.md").write_text(_markdown(facts, notes, tables, pictures, folder))
    index = folder / "index.html"
    index.write_text(_html(facts, notes, tables, everything, pictures))
    return index


def _pictures(results: dict[str, Any], folder: Path) -> tuple[dict[str, Path], str]:
    """The pictures, and why there are none."""
    try:
        from . import plots

        return plots.draw_all(results, folder), ""
    except ImportError as error:
        return {}, f"no pictures: {error.name or 'matplotlib'} is not installed (pip install 'mansard[bench]')"


def _facts(results: dict[str, Any]) -> dict[str, str]:
    """What the numbers belong to."""
    environment, ceilings = results["environment"], results.get("ceilings")
    packages = ", ".join(f"{name} {version}" for name, version in environment.get("packages", {}).items())
    facts = {
        "product": _PRODUCTS[results["family"]],
        "device": f"{environment['device']} ({environment['backend']}, {environment.get('arch', '')})",
        "driver": environment.get("driver", ""),
        "date": environment["date"],
        "version": f"{environment['version']} {provenance.verdict(environment)}",
        "software": f"Python {environment['python']}, {packages}, {environment['system']}",
        "command": environment["command"],
    }
    if ceilings:
        fma = ", ".join(f"{name} {rate / 1e9:.4g} GFLOP/s" for name, rate in ceilings["fma"].items())
        tensor = ", ".join(f"{name} {rate / 1e9:.4g} GFLOP/s" for name, rate in ceilings["tensor"].items())
        read, copy = (ceilings[f"{name}_bandwidth"] / 1e9 for name in ("read", "copy"))
        cores = f"; tensor cores {tensor}" if tensor else ""
        facts["ceilings"] = f"read {read:.1f} GB/s, copy {copy:.1f} GB/s; FMA {fma}{cores} ({ceilings['origin']})"
    beside = [row["beside"] for row in results["rows"] if row.get("beside")]
    if beside:
        spans = [
            f"{name.replace('_', ' ')} {min(rates) / 1e9:.1f} to {max(rates) / 1e9:.1f} G/s"
            for name in beside[0]
            for rates in [[each[name] for each in beside]]
        ]
        facts["ceilings beside the cases"] = f"{', '.join(spans)}; each case is measured against its own"
    return {name: text for name, text in facts.items() if text}


def _notes(results: dict[str, Any], missed: list[tuple[dict[str, Any], str]], without: str) -> list[tuple[str, bool]]:
    """Sentences below the facts; True marks a bad one."""
    notes = [(f"Missing: {name}: {reason}.", False) for name, reason in results["missing"].items()]
    refused = {(row["contender"], row["note"]) for row in results["rows"] if row["status"] == "missing"}
    notes += [(f"Missing in some cases: {name}: {reason}.", False) for name, reason in sorted(refused)]
    notes += [(without + ".", False)] if without else []
    parts = sorted({row["contender"] for row in results["rows"] if row["status"] == "ok" and row.get("note")})
    notes += [(f"{text}.", False) for text in labels.notes(results["rows"])] + _old(results["rows"])
    notes += [(f"Slow, measured on a part of some batches, time scaled: {', '.join(parts)}.", False)] if parts else []
    if results["unfinished"]:
        notes.append((f"Out of time: {len(results['unfinished'])} cases were not measured: see the table.", True))
    notes += doubtful.notes(results)
    wrong = [row for row in results["rows"] if row["status"] == "wrong"]
    notes += [
        (f"Wrong result: {row['contender']} in {row['case']} (error {row['error']:.3g} of its bound).", True)
        for row in wrong
    ]
    verdict = (
        f"{len(missed)} results are below their target: see the table."
        if missed
        else "Every result reaches its target."
    )
    notes.append((verdict, bool(missed)))
    return notes


def _old(rows: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """How many rows of ours are older than the kernels, may be, or rest on few samples."""
    ours = [row for row in rows if row.get("age")]
    found = []
    for kind, text in ((freshness.STALE, "stale: their kernels have changed since"),
                       (freshness.UNKNOWN, "of unknown age: measured before rows carried the hash of their kernels")):
        count = sum(row["age"] == kind for row in ours)
        found += [(f"{count} of our {len(ours)} rows are {text}.", kind == freshness.STALE)] if count else []
    few = sum(len(row["seconds"]) < provenance.SAMPLES for row in ours)
    text = f"{few} of our {len(ours)} rows have fewer than {provenance.SAMPLES} samples."
    return found + ([(text, False)] if few else [])


def _markdown(
    facts: dict[str, str], notes: list[tuple[str, bool]], tables: list[Table], pictures: dict[str, Path], folder: Path
) -> str:
    lines = [f"# Benchmark of {facts['product']}", ""]
    lines += [f"* {name}: {text}" for name, text in facts.items() if name != "product"] + [""]
    for table in tables:
        lines += [f"## {table.title}", "", table.markdown(), ""]
    if any(table.bad for table in tables):
        lines += ["Bold lines hold a miss.", ""]
    lines += ["## Notes", "", *(f"* {text}" for text, _ in notes), ""]
    if pictures:
        lines += ["## Pictures", "", "`mansard report` draws them here and in `index.html`.", ""]
        lines += [f"* `{path.relative_to(folder).as_posix()}`: {_TITLES[name]}" for name, path in pictures.items()]
    return "\n".join(lines).rstrip() + "\n"


def _html(
    facts: dict[str, str],
    notes: list[tuple[str, bool]],
    tables: list[Table],
    everything: Table,
    pictures: dict[str, Path],
) -> str:
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Benchmark</title>",
        f"<style>{_STYLE}</style></head><body>",
    ]
    parts += [f"<h1>Benchmark of {html.escape(facts['product'])}</h1><table>"]
    parts += [
        f"<tr><td>{html.escape(name)}</td><td style='text-align:left;white-space:normal'>{html.escape(text)}</td></tr>"
        for name, text in facts.items()
    ]
    parts += [
        "</table><ul>",
        *(f"<li{' class=bad' if bad else ''}>{html.escape(text)}</li>" for text, bad in notes),
        "</ul>",
    ]
    parts += [_html_table(table) for table in tables]
    for name, path in pictures.items():
        data = base64.b64encode(path.read_bytes()).decode()
        title = html.escape(_TITLES[name])
        parts.append(f"<h2>{title}</h2><img alt='{title}' src='data:image/png;base64,{data}'>")
    return "\n".join([*parts, _html_table(everything), "</body></html>"])


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.columns)
    lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in cells) for cells in table.cells)
    body = "".join(f"<tr{' class=bad' if n in table.bad else ''}>{line}</tr>" for n, line in enumerate(lines))
    return f"<h2>{html.escape(table.title)}</h2><div class='wide'><table><tr>{head}</tr>{body}</table></div>"
