"""Benchmarks of whole applications: `mansard bench hydro` times the steps of a program that is built on Mansard,
`mansard bench solvers` the solvers beside SciPy's and CuPy's.

An application is a package, most of them of the source tree. Its module `bench` says which cases and contenders there
are and measures one of them. Here are the loop, joules, the journal of rows, the roofline of products and the table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ..errors import UsageError
from ..machine.meter import Effort
from ..machine.roofline import Work, time_bound
from ..options import near
from . import ceilings, environment, greenup
from .energy import Contender, Joules
from .progress import Progress
from .runner import choose_backend
from .table import Table

# name on the command line -> package with a module `bench`
APPLICATIONS = {"hydro": "examples.hydrodynamics", "solvers": "mansard.bench.solvers"}
_SECONDS = 20.0  # per contender and case
_OURS, _PEER = "mansard", "library"  # engines whose joules are compared; others are variants of ours

Row = dict[str, Any]


class Application(Protocol):
    """The module `bench` of an application."""

    SETS: dict[str, str]  # names of sets of cases, with a line about each; the first is the default

    def cases(self, name: str, device: str) -> Sequence[Any]: ...

    def contenders(self, device: str, peers: bool) -> Sequence[tuple[str, str]]: ...

    def measure(self, case: Any, contender: tuple[str, str], steps: int, seconds: float) -> Row: ...

    def work(self, case: Any, contender: tuple[str, str]) -> Callable[[], Any]:
        """One step or one solve, which windows of joules repeat."""
        ...

    def table(self, rows: list[Row]) -> Table: ...


def load(name: str) -> Application:
    """The module of an application; UsageError where only the wheel is installed."""
    root = Path(__file__).resolve().parents[2]
    package = APPLICATIONS[name]
    if not (root / package.replace(".", "/") / "bench.py").exists():
        text = f"bench {name}: {package.replace('.', '/')} is a part of the source tree, not of the wheel: "
        raise UsageError(text + "run the command from a clone of the repository")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(f"{package}.bench")


def run(args: argparse.Namespace, effort: Effort | None = None) -> tuple[list[Table], Path]:
    """Measure every case of the sets with every contender, with joules if there is an `effort`; the tables, and where
    the rows are."""
    application = load(args.operation)
    backend, _ = choose_backend(args.device)
    device = backend.name
    if device not in ("cpu", "cuda"):
        raise UsageError(f"bench {args.operation} --device {args.device}: applications run on cpu and cuda")
    cases = [case for name in _sets(args, application) for case in application.cases(name, device)]
    contenders = application.contenders(device, not args.no_peers)
    joules = _joules(backend, effort, args.energy_best)
    facts, limits = environment.describe(backend, args.commit), ceilings.measure(backend)
    args.out.mkdir(parents=True, exist_ok=True)
    journal, rows = args.out / f"{args.operation}.jsonl", list[Row]()
    with Progress(args.operation, len(cases) * len(contenders)) as shown:
        for case in cases:
            found = []
            for contender in contenders:
                shown.step(f"{case.name}, {' '.join(contender)}")
                row = application.measure(case, contender, args.repeats, args.seconds or _SECONDS)
                for product in row["products"]:
                    product["bound"] = _bound(product, limits)
                found.append({**row, "contender": ", ".join(contender), "environment": facts})
                if joules is None:
                    _keep(journal, found[-1:])
            if joules is not None:
                joules.say = shown.tell
                _add_joules(found, contenders, partial(application.work, case), joules)
                _keep(journal, found)
            rows += found
    energy = [greenup.table_of_calls(rows)] if any("joules" in row for row in rows) else []
    return [application.table(rows), *energy], journal


def _keep(journal: Path, rows: list[Row]) -> None:
    with journal.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _joules(backend: Any, effort: Effort | None, best_peer: bool) -> Joules | None:
    """The meter of the device; where nothing can be read that is said once, and times alone are measured."""
    joules = Joules(backend, effort, best_peer) if effort else None
    if joules and joules.why:
        print(f"energy {joules.why}", flush=True)
        return None
    return joules


def _add_joules(
    rows: list[Row], contenders: Sequence[tuple[str, str]], work: Callable[[tuple[str, str]], Callable[[], Any]],
    joules: Joules,
) -> None:  # fmt: skip
    """Windows of every contender of a case, or of ours and the fastest peer; ratios over the peer that uses least."""
    engines, on_gpu = [engine for _, engine in contenders], joules.backend.name == "cuda"
    peers = sorted((row["median"], number) for number, row in enumerate(rows) if engines[number] == _PEER)
    left_out = {number for _, number in peers[1:]} if joules.best_peer else set()
    for number, row in enumerate(rows):
        if number in left_out or joules.why or (on_gpu and contenders[number][0] == "numpy"):  # the GPU idles there
            continue
        used = joules.usage([Contender(row["contender"], work(contenders[number]))]).get(row["contender"])
        if used is None:
            print(f"energy {joules.why}", flush=True)
            continue
        row |= {"energy": used, **greenup.of_call(used)}
    metered = [(engine, row) for engine, row in zip(engines, rows, strict=True) if "joules" in row]
    others = [row for engine, row in metered if engine == _PEER]
    peer = min(others, key=lambda row: float(row["gross_joules"]), default=None)
    for engine, row in metered:
        if engine == _OURS and peer is not None:
            row |= greenup.ratios(row, peer)


def _sets(args: argparse.Namespace, application: Application) -> list[str]:
    known = application.SETS
    asked = next(iter(known)) if args.set is None else args.set
    sets = list(known) if asked == "all" else [name.strip() for name in asked.split(",")]
    if unknown := [name for name in sets if name not in known]:
        hint = near(unknown[0], known)
        raise UsageError(f"--set {unknown[0]}: sets of {args.operation} are {', '.join(known)}, and all{hint}")
    return sets


def _bound(product: dict[str, Any], limits: Any) -> float:
    work = Work(product["read"], product["written"], product["flops"], "float64")
    return time_bound(work, limits).seconds
