"""`mansard report`: one page that needs nothing else (`index.html`, pictures inside) and `summary.md`, from results."""

from __future__ import annotations

import argparse
import base64
import html
from pathlib import Path
from typing import Any

from ..errors import UsageError
from . import doubtful, extension, freshness, greenup, labels, provenance, store, summary
from .extension import NOTHING, Extension
from .page.write import write as write_page
from .table import Table, html_table, html_top

_RANDOM = "random"  # the family whose summary is all of its report
_PAGE = Path("docs/performance.md")

_PRODUCTS = {"gram": "gram: A^H B", "matmul": "matmul: A B", "batched": "batched: small matrices, many of them",
             "factor": "factor: Cholesky, LU, QR, systems and inverses of many matrices",
             "powers": "powers: sparse matrices times vectors, and their powers"}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "folder with results, or with folders that have some (default: ./report)"
    parser.add_argument("folder", nargs="?", type=Path, default=Path("report"), help=text)
    text = "also print speedup, powerup and greenup over these results, of a CPU, per matrix (needs --energy rows)"
    parser.add_argument("--over", type=Path, metavar="FOLDER", help=text)
    parser.add_argument("--to", type=Path, help="write the report to another folder")
    text = f"compress the journal: lines of {store.JOURNAL} go to the end of {store.JOURNAL}.gz"
    parser.add_argument("--pack", action="store_true", help=text)
    text = "also list what is faster or slower than in these earlier results, beyond the spread of both"
    parser.add_argument("--against", type=Path, metavar="FOLDER", help=text)
    extension.add_argument(parser)
    text = f"only write the published tables (default: {_PAGE}), the README's table and picture, from the results there"
    parser.add_argument("--readme", type=Path, nargs="?", const=_PAGE, metavar="PAGE", help=text)


def run(args: argparse.Namespace) -> int:
    if args.readme is not None:
        return _write_readme(args.readme)
    added, documents = extension.load(args.extension), {}
    folders = store.folders(args.folder)
    for folder in folders:
        if args.pack:
            store.pack(folder)
        to = args.to and args.to / folder.relative_to(args.folder)
        here = to is None and store.has_journal(folder)
        results = store.write_results(folder) if here else store.load(folder)
        documents[folder.relative_to(args.folder).as_posix()] = results
        if results["family"] == _RANDOM:
            print(f"report: {_write_random(results, to or folder)}")
            documents.popitem()
            continue
        print(f"report: {write_report(results, to or folder, added)}")
        if args.over is not None:
            print(_over(results, args.over))
    if documents and all(folder.parent == args.folder for folder in folders):
        earlier = args.against and {folder.name: store.load(folder) for folder in store.folders(args.against)}
        print(f"overview: {write_page(documents, args.to or args.folder, earlier)}")
    _draw_tradeoff(args.folder)
    return 0


def _write_random(results: dict[str, Any], folder: Path) -> Path:
    """The summary of random problems."""
    from .random.summary import write

    folder.mkdir(parents=True, exist_ok=True)
    return write(results, folder)


def _over(results: dict[str, Any], folder: Path) -> str:
    """The table of a GPU's rows over a CPU's, or why there is none."""
    found = greenup.over(results, store.load(folder))
    if found.cells:
        return found.markdown()
    return f"{greenup.OVER}: no case has joules here and in {folder}; `mansard bench --energy` measures them"


def _draw_tradeoff(folder: Path) -> None:
    """The picture of a folder's trials for energy, where there are some and matplotlib is installed."""
    from . import energy_pictures

    try:
        if folder.is_dir() and (path := energy_pictures.tradeoff(folder)):
            print(f"picture: {path}")
    except ImportError:
        print("no picture of trials: matplotlib is not installed (pip install 'mansard[bench]')")


def _write_readme(page: Path) -> int:
    """Write the tables of a page, and the README's picture where matplotlib is installed."""
    from . import readme

    results = readme.results_of(page)
    try:
        page.write_text(readme.filled(page.read_text(), results))
        front = results.parent / "README.md"
        if front.exists():
            front.write_text(readme.front(front.read_text(), results))
    except ValueError as error:
        raise UsageError(f"--readme {page}: {error}") from None
    print(f"tables: {page}")
    try:
        from . import cover

        print(f"picture: {cover.write(results / 'h200')}")
    except ImportError:
        print("no picture: matplotlib is not installed (pip install 'mansard[bench]')")
    return 0


def write_report(results: dict[str, Any], folder: Path, added: Extension = NOTHING) -> Path:
    """Pictures, `summary.md` and `index.html` in `folder`; returns the page's path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    results = freshness.mark(results)
    missed = added.misses(results)
    pictures, without = _pictures(results, folder / "plots", added)
    tables = summary.tables(results, {id(row) for row, _ in missed}, added.tables)
    tables += [summary.below(missed, bool(added.targets))] if missed else []
    tables += [summary.unfinished(results)] if results["unfinished"] else []
    facts, notes = _facts(results), _notes(results, without) + _verdict(missed, bool(added.targets))
    everything = summary.each(results, {id(row) for row, _ in missed})
    (folder / "summary.md").write_text(_markdown(facts, notes, tables, pictures, folder))
    index = folder / "index.html"
    index.write_text(_html(facts, notes, tables, everything, pictures))
    return index


def _pictures(results: dict[str, Any], folder: Path, added: Extension) -> tuple[dict[str, Path], str]:
    """The pictures by title, and why there are none."""
    try:
        from . import gallery

        return gallery.draw_all(results, folder, added), ""
    except ImportError as error:
        return {}, f"no pictures: {error.name or 'matplotlib'} is not installed (pip install 'mansard[bench]')"


def _facts(results: dict[str, Any]) -> dict[str, str]:
    """Facts at the top of a report: device, date, version, software, command, ceilings."""
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


def _verdict(missed: list[tuple[dict[str, Any], str]], has_targets: bool) -> list[tuple[str, bool]]:
    """Whether rows are wrong, failed or, where there are targets, below them."""
    if not has_targets:
        return [(f"{len(missed)} results are wrong or failed: see the table.", True)] if missed else []
    if missed:
        return [(f"{len(missed)} results are below their target: see the table.", True)]
    return [("Every result reaches its target.", False)]


def _notes(results: dict[str, Any], without: str) -> list[tuple[str, bool]]:
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
        lines += [f"* `{path.relative_to(folder).as_posix()}`: {title}" for title, path in pictures.items()]
    return "\n".join(lines).rstrip() + "\n"


def _html(
    facts: dict[str, str],
    notes: list[tuple[str, bool]],
    tables: list[Table],
    everything: Table,
    pictures: dict[str, Path],
) -> str:
    parts = [html_top(f"Benchmark of {facts['product']}"), "<table>"]
    parts += [
        f"<tr><td>{html.escape(name)}</td><td style='text-align:left;white-space:normal'>{html.escape(text)}</td></tr>"
        for name, text in facts.items()
    ]
    parts += [
        "</table><ul>",
        *(f"<li{' class=bad' if bad else ''}>{html.escape(text)}</li>" for text, bad in notes),
        "</ul>",
    ]
    parts += [html_table(table) for table in tables]
    for name, path in pictures.items():
        data = base64.b64encode(path.read_bytes()).decode()
        title = html.escape(name)
        parts.append(f"<h2>{title}</h2><img alt='{title}' src='data:image/png;base64,{data}'>")
    return "\n".join([*parts, html_table(everything), "</body></html>"])
