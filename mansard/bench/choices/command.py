"""`mansard bench model`: by how much choices for unrecorded shapes miss the best configuration."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...errors import MansardError, UsageError, known_text
from ...options import near
from ...plan.problem import Problem
from ...settings import current
from ...tune.ahead import compile_ahead
from ..environment import describe
from ..runner import choose_backend
from ..table import Table
from .draw import FAMILIES, problems
from .measure import Compared, compare

NAME = "model"
ROWS = "rows.jsonl"
_ELEMENTS = {"cuda": 1 << 26, "cpu": 1 << 22, "emulated": 1 << 11}
_GOALS = {"median": 0.90, "5th percentile": 0.75}
_WORST = 10


def add_argument(parser: argparse.ArgumentParser) -> None:
    """The option that `model` has beside those of `mansard bench`, --seed, --cases and --operations."""
    text = "of `bench model`: configurations per problem that the choice is compared with (default: 48)"
    parser.add_argument("--candidates", type=int, default=48, help=text)


def run(args: argparse.Namespace, show: Callable[[Table], None]) -> int:
    """Compare, append to the journal as results come, and show the tables; what the journal holds is not repeated."""
    backend, _ = choose_backend(args.device)
    if not hasattr(backend, "prepare"):
        raise UsageError(f"--device {args.device}: nothing is compiled there, so nothing is chosen")
    out = args.out / NAME
    out.mkdir(parents=True, exist_ok=True)
    known = {row["problem"] for row in rows(out)}
    todo = [one for one in _asked(args, backend) if str(one) not in known]
    deadline = time.monotonic() + (args.seconds or float("inf"))
    compile_ahead(todo, backend.device, "top", args.candidates // 2, deadline=deadline)
    environment = describe(backend)
    with (out / ROWS).open("a") as journal:
        for number, problem in enumerate(todo):
            if time.monotonic() > deadline:
                print(f"out of time: {len(todo) - number} problems left; the same command continues")
                break
            print(f"{number + 1} of {len(todo)}: {_compared(problem, backend, args, environment, journal)}", flush=True)
    found = list(rows(out))
    for table in tables(found):
        show(table)
    (out / "summary.md").write_text("\n\n".join(f"# {one.title}\n\n{one.markdown()}" for one in tables(found)) + "\n")
    return 0


def _asked(args: argparse.Namespace, backend: Any) -> Iterator[Problem]:
    names = args.operations.split(",") if args.operations else list(FAMILIES)
    for name in names:
        if name not in FAMILIES:
            raise UsageError(f"--operations {name}: families are {', '.join(FAMILIES)}{near(name, FAMILIES)}")
        elements = args.elements or _ELEMENTS[backend.name]
        for seed in args.seed:
            yield from problems(name, seed, args.cases, elements, backend.device)


def _compared(problem: Problem, backend: Any, args: argparse.Namespace, environment: Any, journal: Any) -> str:
    """Compare one problem; a line about it."""
    try:
        found = compare(problem, backend, args.candidates, args.seed[0])
    except (MansardError, MemoryError) as error:
        found = f"{problem}: {known_text(error) or repr(error)}"
    if isinstance(found, str):
        return found
    facts = {name: environment.get(name) for name in ("device", "date", "commit", "version")}
    journal.write(json.dumps({**found.row(), **facts, "threads": current().threads}) + "\n")
    journal.flush()
    return _line(found)


def _line(found: Compared) -> str:
    tried = f"{found.tried} of {found.legal} configurations"
    return f"{100 * found.share:.0f} % of the best of {tried}, by {found.origin}: {found.problem}"


def rows(out: Path) -> Iterator[dict[str, Any]]:
    """Lines of the journal."""
    if (out / ROWS).exists():
        yield from map(json.loads, (out / ROWS).read_text().splitlines())


def tables(found: list[dict[str, Any]]) -> list[Table]:
    """Shares of the best by family, and the worst problems."""
    cells: list[tuple[str, ...]] = []
    bad: set[int] = set()
    for family in dict.fromkeys(row["family"] for row in found):
        shares = sorted(row["share"] for row in found if row["family"] == family)
        middle, low = statistics.median(shares), shares[(len(shares) - 1) // 20]
        bad |= {len(cells)} if middle < _GOALS["median"] or low < _GOALS["5th percentile"] else set()
        cells.append((family, str(len(shares)), *(f"{100 * one:.0f} %" for one in (middle, low, shares[0]))))
    names = ("family", "problems", "median", "5th percentile", "worst")
    worst = [
        (row["problem"], row["origin"], f"{100 * row['share']:.0f} %", _short(row["choice"]), _short(row["best"]))
        for row in sorted(found, key=lambda row: row["share"])[:_WORST]
    ]
    return [
        Table("Choices against a search: time of the best over that of the choice", names, cells, frozenset(bad)),
        Table("Worst choices", ("problem", "by", "share", "choice", "best"), worst),
    ]


def _short(config: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in config.items())
