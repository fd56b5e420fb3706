"""Results on disk: a journal that grows while measuring, and the JSON and CSV made from it at the end.

The journal (`rows.jsonl`) makes a run interruptible: each case's rows are appended in one write. It holds lines of four
kinds: a run begins, its ceilings, rows of a case, a run is finished. An unfinished run of the same sets on
the same device by the same sources is continued; otherwise a new run begins, and of each case the latest rows count.

`pack` moves the journal's lines to the end of a compressed one (`rows.jsonl.gz`). Both are read, the compressed one
first, and runs append to the plain one.

Lines that are damaged (`lines.py`) are passed over, and one warning names the file, the first of them and the reason.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import untrusted
from ..machine import machine
from ..machine.machine import Machine
from ..rules import shown
from ..untrusted import Damaged
from . import lines as checked
from .rows import BATCHED_COLUMNS, COLUMNS, SPARSE_COLUMNS, Row, compare, complete

JOURNAL, RESULTS, TABLE = "rows.jsonl", "results.json", "results.csv"
FORMAT = 1
_MOST_BYTES = 1 << 26  # of results.json; the largest so far has 6 MB
_PACKED = ".gz"
_IDENTITY = ("device", "backend", "tree", "operands")


class Journal:
    """The journal of one output folder, open for one run."""

    def __init__(self, folder: Path, environment: dict[str, Any], options: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / JOURNAL
        lines = read(self.path)
        runs = [line for line in lines if line["line"] == "run"]
        if runs and runs[-1]["environment"].get("device") != environment.get("device"):
            stamp = time.strftime("%Y%m%d-%H%M%S")
            for path in filter(Path.exists, (self.path, packed(self.path))):  # another device's results are kept aside
                os.replace(path, path.with_name(path.name.replace("rows", f"rows-{stamp}", 1)))
            lines, runs = [], []
        finished = {line["run"] for line in lines if line["line"] == "finished"}
        self.resumed = bool(runs) and runs[-1]["run"] not in finished and _alike(runs[-1], environment, options)
        self.run = runs[-1]["run"] if self.resumed else len(runs) + 1
        self.done = {line["case"] for line in lines if line["line"] == "row" and line["run"] == self.run}
        self.ceilings = next(
            (line["machine"] for line in lines if line["line"] == "ceilings" and line["run"] == self.run), None
        )
        if not self.resumed:
            self.write("run", environment=environment, options=options)

    def write(self, kind: str, **content: Any) -> None:
        self.write_all([{"line": kind, "run": self.run, **content}])

    def rows(self, rows: list[Row]) -> None:
        """All rows of a case, together: a case is either in the journal or still to be measured."""
        self.write_all([{"line": "row", "run": self.run, **row} for row in rows])

    def write_all(self, lines: list[dict[str, Any]]) -> None:
        with open(self.path, "a") as file:
            file.write("".join(json.dumps(line, default=str) + "\n" for line in lines))


def _alike(run: dict[str, Any], environment: dict[str, Any], options: dict[str, Any]) -> bool:
    same = all(run["environment"].get(name) == environment.get(name) for name in _IDENTITY)
    same = same and bool(run["options"].get("energy")) == bool(options.get("energy"))
    return same and all(run["options"].get(name) == options.get(name) for name in ("sets", "dtypes"))


def packed(path: Path) -> Path:
    """The compressed journal beside a plain one."""
    return path.with_name(path.name + _PACKED)


def has_journal(folder: Path) -> bool:
    return (folder / JOURNAL).exists() or packed(folder / JOURNAL).exists()


def folders(folder: Path) -> list[Path]:
    """The folder itself if it has a journal or is a results.json, else all folders below it that have a journal."""
    if has_journal(folder) or folder.is_file() or (folder / RESULTS).exists():
        return [folder]
    return sorted({path.parent for path in folder.rglob(f"{JOURNAL}*") if has_journal(path.parent)}) or [folder]


def read(path: Path) -> list[dict[str, Any]]:
    """The journal's lines, compressed ones first, but for damaged ones, such as a last line cut short by an
    interruption."""
    first, last = _read(packed(path)), _read(path)
    return first if last and first[-len(last) :] == last else first + last  # `pack` was interrupted before it unlinked


def _read(path: Path) -> list[dict[str, Any]]:
    left = _Room(path)
    return list(untrusted.each_line(path, lambda text: checked.line(untrusted.parse(text, left.after(text)))))


def pack(folder: Path) -> None:
    """Append the plain journal's lines to the compressed one. Not while a run writes to it."""
    path = folder / JOURNAL
    if not path.exists():
        return
    lines = [text for _, text in untrusted.lines(packed(path))] if packed(path).exists() else []
    new = [text for _, text in untrusted.lines(path)]
    lines += [] if new and lines[-len(new) :] == new else new
    draft = folder / f"{JOURNAL}.{os.getpid()}"
    draft.write_bytes(gzip.compress(b"".join(text + b"\n" for text in lines), 9, mtime=0))
    os.replace(draft, packed(path))
    path.unlink()


class _Room:
    """Memory that the lines of a file may still take."""

    def __init__(self, path: Path) -> None:
        size = path.stat().st_size if path.exists() else 0
        size *= untrusted.UNPACKED if path.suffix == _PACKED else 1
        self.bytes = untrusted.SPARE + untrusted.FACTOR * size

    def after(self, text: bytes) -> int:
        """Subtract the cost of a line from the bytes left; returns what was left before it."""
        before = self.bytes
        self.bytes -= untrusted.cost(text)
        return before


def machine_from(values: dict[str, Any]) -> Machine:
    """Return the `Machine` that a journal's values describe."""
    return machine.from_values(values)


def ceilings_of(lines: list[dict[str, Any]], run: int) -> Machine | None:
    """The ceilings measured when a run began."""
    stored = [line for line in lines if line["line"] == "ceilings" and line["run"] == run]
    return machine_from(stored[-1]["machine"]) if stored else None


def collect(folder: Path) -> dict[str, Any]:
    """Everything the journal holds, as the document written to `results.json`."""
    lines = read(folder / JOURNAL)
    runs = [line for line in lines if line["line"] == "run"]
    if not runs:
        raise FileNotFoundError(f"{folder / JOURNAL} holds no results: run `mansard bench --out {folder}` first")
    latest = {line["case"]: line["run"] for line in lines if line["line"] == "row"}
    try:
        machines = {run["run"]: ceilings_of(lines, run["run"]) for run in runs}
    except Damaged as error:
        raise Damaged(f"{folder / JOURNAL}: the ceilings of a run: {error}") from None
    rows = _completed(folder / JOURNAL, [line for line in lines if line["line"] == "row"], latest, machines)
    last = runs[-1]
    ceilings = machines[last["run"]]
    notes = [line for line in lines if line["line"] == "note" and line["run"] == last["run"]]
    return {
        "format": FORMAT,
        "family": last["options"].get("family", "gram"),
        "environment": last["environment"],
        "options": last["options"],
        "ceilings": asdict(ceilings) if ceilings else None,
        "missing": {name: reason for note in notes for name, reason in note.get("missing", {}).items()},
        "unfinished": notes[-1].get("unfinished", []) if notes else [],
        "compiling": notes[-1].get("compiling", {}) if notes else {},
        "runs": [_without(run) for run in runs],
        "rows": compare(rows),
    }


def _completed(
    path: Path, lines: list[dict[str, Any]], latest: dict[str, int], machines: dict[int, Machine | None]
) -> list[Row]:
    """Rows of the latest run of each case with their statistics, but for those whose values contradict each other."""
    rows, skipped, first = [], 0, ""
    for line in lines:
        if latest[line["case"]] == line["run"]:
            ceilings = machines.get(line["run"])
            try:
                rows.append(complete(_without(line), ceilings) if ceilings else _without(line))
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                skipped, first = skipped + 1, first or f"a row of {shown(line['case'])}: {shown(str(error))}"
    if skipped:
        untrusted.warn_ignored(path, first, skipped)
    return rows


def _without(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != "line"}


def write_results(folder: Path) -> dict[str, Any]:
    """`results.json` and `results.csv` from the journal; returns the document."""
    results = collect(folder)
    draft = folder / f"{RESULTS}.{os.getpid()}"
    draft.write_text(json.dumps(results, indent=1, default=str))
    os.replace(draft, folder / RESULTS)
    with open(folder / TABLE, "w", newline="") as file:
        writer = csv.writer(file)
        more = {"batched": BATCHED_COLUMNS, "factor": BATCHED_COLUMNS, "powers": SPARSE_COLUMNS}
        columns = COLUMNS + more.get(results["family"], ())
        writer.writerow(columns)
        for row in results["rows"]:
            writer.writerow([_cell(name, row) for name in columns])
    return results


def _cell(name: str, row: Row) -> Any:
    value = row.get(name, "")
    if name == "variant":
        value = (row.get("config") or {}).get("VARIANT", "")
    if name == "config":
        return " ".join(f"{key}={item}" for key, item in (row.get("config") or {}).items())
    return " ".join(map(repr, value)) if isinstance(value, list) else value


def load(folder: Path) -> dict[str, Any]:
    """The results of a folder: its journal if there is one (it may be ahead of the JSON), else its `results.json`."""
    if has_journal(folder):
        return collect(folder)
    path = folder if folder.is_file() else folder / RESULTS
    try:
        return checked.results(untrusted.parse(untrusted.read_bytes(path, _MOST_BYTES)))
    except OSError:
        raise FileNotFoundError(f"{folder} holds neither {JOURNAL} nor {RESULTS}: run `mansard bench` first") from None
    except Damaged as error:
        raise Damaged(f"{path}: {error}") from None
