"""What compute-sanitizer said about each case, and the table that results/ keeps of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

BEGIN, END = "mansard case begins:", "mansard case ends:"  # lines of the program that is watched
_REPORT = re.compile(r"^========= (\S.*)$")  # details of a report are indented further
_KERNEL = re.compile(r"^=========\s+at (?:.*\s)?(\S+?)(?:\+0x|\(|$)")
_OTHER_ACCESS = re.compile(r"^=========\s+(and (?:Read|Write) access at .*)$")  # of a race
_NOT_A_REPORT = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "LEAK SUMMARY",
    "Error: process didn't terminate",
    "Target application returned an error",
)


@dataclass(frozen=True)
class Row:
    """One case under one tool."""

    family: str
    variant: str
    dtype: str
    sizes: str
    case: int  # in CASES of the family
    tool: str
    errors: int
    outcome: str  # right, wrong result, failed, timeout, not finished
    seconds: float
    report: str = ""  # the first of the tool's reports, or why it failed

    @property
    def key(self) -> tuple[str, int, str]:
        return self.family, self.case, self.tool

    @property
    def clean(self) -> bool:
        return self.errors == 0 and self.outcome == "right"


@dataclass
class Watched:
    """What was seen of one case in the output of a process."""

    errors: int = 0
    report: str = ""
    outcome: str = "not finished"
    seconds: float = 0.0


def parse(output: str) -> dict[int, Watched]:
    """By case: reports between its first and its last line. What comes before all cases counts for the first one, what
    comes after the last one for that."""
    cases: dict[int, Watched] = {}
    early, seen = Watched(), Watched()
    seen = early
    for line in output.splitlines():
        if line.startswith(BEGIN):
            seen = cases[int(line[len(BEGIN) :])] = Watched()
        elif line.startswith(END):
            number, seconds, outcome = line[len(END) :].split(maxsplit=2)
            seen = cases[int(number)]
            what, _, why = outcome.partition(": ")
            seen.outcome, seen.seconds, seen.report = what, float(seconds), seen.report or why
        elif (match := _REPORT.match(line)) and not match[1].startswith(_NOT_A_REPORT):
            seen.errors += 1
            seen.report = seen.report if seen.errors > 1 else match[1]
        elif seen.errors == 1 and (match := _OTHER_ACCESS.match(line)):
            seen.report += f" {match[1]}"
        elif seen.errors == 1 and " in " not in seen.report and (match := _KERNEL.match(line)):
            seen.report += f" in {match[1]}"
    if cases and early.errors:
        first = next(iter(cases.values()))
        first.errors, first.report = first.errors + early.errors, early.report
    return cases


def table(rows: Iterable[Row], device: str) -> str:
    """Markdown: a line per family and tool, then a line per case."""
    rows = sorted(rows, key=lambda row: (row.family, row.tool, row.case))
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.family, row.tool), []).append(row)
    lines = [
        f"# Sanitizers on {device}",
        "",
        "Written by `make sanitize-gpu`. A case is one of `CASES` in `tests/<family>_cases.py`; its kernel runs under",
        "compute-sanitizer on small operands, each in an allocation of its own, and its results are compared.",
        "",
        "| family | tool | cases | variants | dtypes | errors | not right |",
        "|---|---|---|---|---|---|---|",
    ]
    for (family, tool), some in groups.items():
        kinds = [", ".join(sorted({getattr(row, name) for row in some})) for name in ("variant", "dtype")]
        errors, failed = sum(row.errors for row in some), sum(row.outcome != "right" for row in some)
        lines.append(f"| {family} | {tool} | {len(some)} | {kinds[0]} | {kinds[1]} | {errors} | {failed} |")
    names = [field.name for field in fields(Row)]
    lines += ["", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for row in rows:
        cells = (str(getattr(row, name)).replace("|", "/") for name in names)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def read(path: Path) -> list[Row]:
    """The cases of a table that was written before; none if there is no such file."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(fields(Row)) and cells[4].isdigit():
            rows.append(Row(*cells[:4], int(cells[4]), cells[5], int(cells[6]), cells[7], float(cells[8]), cells[9]))
    return rows


def write(path: Path, rows: Iterable[Row], device: str) -> None:
    """Replace the file in one step: a run that is killed leaves the table before or after."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(table(rows, device))
    beside.replace(path)
