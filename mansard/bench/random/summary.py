"""Summary of random problems: median, 5th percentile and worst per operation, the worst cases and their commands."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..rows import OURS, Row
from ..table import Table
from . import sparse
from .operations import PREFIX

SUMMARY = "summary.md"
WORST = 20  # cases that are listed
MEMORY = {"cpu": 1 << 27, "cuda": 1 << 32}  # default limits of operands and result together, in bytes
_SMALL = 1 << 27  # the limit on other backends
_GOAL = 0.95  # of the best peer: lines below it are marked
_INTO = "Where we write into given memory, peers that can do so, too."
_NAMES = {found: name for name, found in sparse.OPERATIONS.items()}


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(len(ranked) * percent / 100) - 1)]


def name_of(row: Row) -> str:
    """The operation of a row by its name on the command line."""
    name = str(row["operation"]).removeprefix(PREFIX)
    return _NAMES.get(name, name)


def measured(results: dict[str, Any]) -> list[Row]:
    """Our right rows of random problems."""
    return [row for row in _ours(results) if row["status"] == "ok" and row.get("median")]


def _ours(results: dict[str, Any]) -> list[Row]:
    return [row for row in results["rows"] if row["contender"] == OURS and row.get("drawn")]


def by_operation(results: dict[str, Any]) -> Table:
    """Ratio to the best peer and share of the limit, per operation and of all."""
    groups: dict[str, list[Row]] = {}
    for row in measured(results):
        groups.setdefault(name_of(row), []).append(row)
    lines = [_line(name, groups[name]) for name in sorted(groups)]
    lines += [_line("all", [row for rows in groups.values() for row in rows])] if len(groups) > 1 else []
    columns = ("operation", "problems", "x peer: median", "5th percentile", "worst", "below 0.95",
               "% of limit: median", "5th percentile", "worst")  # fmt: skip
    bad = frozenset(number for number, line in enumerate(lines) if line[4] and float(line[4]) < _GOAL)
    return Table("Random problems by operation", columns, lines, bad)


def _line(name: str, rows: list[Row]) -> tuple[str, ...]:
    ratios = [row["x_peer"] for row in rows if row.get("x_peer")]
    limits = [row["percent_limit"] for row in rows]
    below = f"{sum(ratio < _GOAL for ratio in ratios)} of {len(ratios)}"
    return (name, str(len(rows)), *_three(ratios, ".2f"), below, *_three(limits, ".1f"))


def _three(values: list[float], form: str) -> tuple[str, str, str]:
    if not values:
        return "", "", ""
    return format(statistics.median(values), form), format(percentile(values, 5), form), format(min(values), form)


def worst(results: dict[str, Any], most: int = WORST) -> Table:
    """The problems that lose most to a peer, each with the command that repeats it."""
    faced = sorted((row for row in measured(results) if row.get("x_peer")), key=lambda row: float(row["x_peer"]))
    backend = str(results["environment"].get("backend", ""))
    cells = [
        (f"{row['x_peer']:.2f}", name_of(row), text(row), _time(row["median"]), row["best_peer"],
         f"{row['percent_limit']:.1f}", str(row.get("route") or ""), command(row, backend))
        for row in faced[:most]
    ]  # fmt: skip
    columns = ("x peer", "operation", "problem", "time", "best peer", "% of limit", "route", "again")
    return Table(f"The {len(cells)} worst", columns, cells,
                 frozenset(number for number, row in enumerate(faced[:most]) if row["x_peer"] < _GOAL))  # fmt: skip


def failures(results: dict[str, Any]) -> list[str]:
    """A line for every problem of ours that failed, or whose result is wrong."""
    backend = str(results["environment"].get("backend", ""))
    bad = [row for row in _ours(results) if row["status"] not in ("ok", "missing")]
    why = [row.get("note") or f"error {row.get('error')}" for row in bad]
    return [
        f"{row['status']}: {name_of(row)}, {text(row)}: {note}; {command(row, backend)}"
        for row, note in zip(bad, why, strict=True)
    ]


def text(row: Row) -> str:
    """A problem on a line."""
    if row.get("problem_text"):
        return str(row["problem_text"])
    what = f"{row['dtype']}, {row['form']}, {row.get('rows', row['K'])} rows, {row.get('nnz', '?')} entries"
    return f"{what}, p={row['inner']}" if row["operation"] == "powers" else f"{what}, {row['N']} vectors"


def command(row: Row, backend: str) -> str:
    """The command that repeats a case exactly."""
    seed, number, memory = row["drawn"]
    limit = "" if memory == default_memory(backend) else f" --memory {memory}"
    return f"mansard bench random --seed {seed} --only {number}{limit}"


def default_memory(backend: str) -> int:
    return MEMORY.get(backend, _SMALL)


def state(results: dict[str, Any]) -> str:
    """A sentence about the machine: what it is, and how busy it was."""
    facts = results["environment"]
    found = f"{facts.get('device')}, commit {str(facts.get('commit', ''))[:12]}, {facts.get('date')}."
    load = facts.get("load")
    if load is None or facts.get("backend") != "cpu":
        return found
    busy = load > 0.5 * facts.get("multiprocessors", 1)
    other = "other programs ran: ratios are noisy, contenders were sampled in turns" if busy else "it was idle"
    return f"{found} Load average when the run began: {load:.1f} on {facts.get('multiprocessors')} threads; {other}."


def markdown(results: dict[str, Any]) -> str:
    """The page `summary.md`."""
    parts = ["# Random problems", state(results)]
    seeds = sorted({row["drawn"][0] for row in _ours(results)})
    count = f"Seeds {', '.join(map(str, seeds))}: {len(_ours(results))} problems."
    parts.append(f"{count} `x peer` is the best right peer's median over ours. {_INTO}")
    for table in (by_operation(results), worst(results)):
        parts += [f"## {table.title}", table.markdown()]
    if wrong := failures(results):
        parts += ["## Failures", *(f"* {line}" for line in wrong)]
    if results["missing"]:
        parts += ["## Missing", *(f"* {name}: {reason}" for name, reason in results["missing"].items())]
    return "\n\n".join(parts) + "\n"


def tables(results: dict[str, Any]) -> Iterable[Table]:
    return by_operation(results), worst(results)


def _time(seconds: float) -> str:
    unit, scale = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if seconds >= s), ("us", 1e-6))
    return f"{seconds / scale:.3g} {unit}"


def write(results: dict[str, Any], folder: Path) -> Path:
    """Write `summary.md`; returns its path."""
    path = folder / SUMMARY
    path.write_text(markdown(results))
    return path
