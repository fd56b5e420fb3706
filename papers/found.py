"""Committed results for the pages of papers: journals, read once, and the rows that an answer asks for."""

from __future__ import annotations

import functools
import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mansard.bench import store
from mansard.bench.rows import OURS, Row, operation_of

Line = dict[str, Any]  # a row of an experiment
RESULTS = Path(__file__).parent.parent / "results"


@dataclass(frozen=True)
class Number:
    """What rows say about a figure: whether the declared verdict stands, numbers for its sentence, and a table."""

    holds: bool
    values: dict[str, Any]
    columns: tuple[str, ...] = ()
    cells: tuple[tuple[str, ...], ...] = ()


@functools.cache
def results(folder: str) -> dict[str, Any]:
    """The results of a folder below results/, such as h200/gram."""
    return store.collect(RESULTS / folder)


@functools.cache
def lines(path: str) -> list[Line]:
    """The lines of a JSON file of rows, by its path from the root of the tree."""
    return [json.loads(line) for line in (RESULTS.parent / path).read_text().splitlines() if line.strip()]


def experiment(name: str, device: str = "h200", **equal: Any) -> list[Line]:
    """Rows with these values of an experiment outside `mansard bench`, results/DEVICE/papers/NAME; none before it is
    measured."""
    path = f"results/{device}/papers/{name}.jsonl"
    found = lines(path) if (RESULTS.parent / path).exists() else []
    return [row for row in found if all(row.get(name) == value for name, value in equal.items())]


def rows(folder: str, *sets: str, ours: bool | None = True, **equal: Any) -> list[Row]:
    """Right rows of some sets (none: all) with these values; `ours` None has peers as well, False peers alone."""
    found = []
    for row in results(folder)["rows"]:
        wanted = equal.get("operation")
        if row["status"] != "ok" or (sets and row["set"] not in sets) or (wanted and operation_of(row) != wanted):
            continue
        if ours is not None and (row["contender"] == OURS) != ours:
            continue
        if all(row.get(name) == value for name, value in equal.items() if name != "operation"):
            found.append(row)
    return found


def best(found: Iterable[Row], key: Callable[[Row], Any], value: str = "gflops") -> dict[Any, Row]:
    """The row with the largest value for every key, in the order of keys."""
    chosen: dict[Any, Row] = {}
    for row in found:
        if (place := key(row)) not in chosen or row[value] > chosen[place][value]:
            chosen[place] = row
    return dict(sorted(chosen.items()))


def column(found: Iterable[Row], name: str) -> list[float]:
    """The values of a column, where rows have it."""
    return [row[name] for row in found if row.get(name) is not None]


def median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


def geometric_mean(values: Iterable[float]) -> float:
    return float(statistics.geometric_mean(values))


def listed(names: Iterable[object]) -> str:
    """Names in a sentence: "4, 8 and 12"; "none" of none."""
    *others, last = [*map(str, names)] or ["none"]
    return f"{', '.join(others)} and {last}" if others else last
