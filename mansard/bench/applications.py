"""Benchmarks of whole applications: `mansard bench hydro` times the steps of a program that is built on Mansard,
`mansard bench solvers` the solvers beside SciPy's and CuPy's.

An application is a package, most of them of the source tree. Its module `bench` says which cases and contenders there
are and measures one of them; here are the loop, the journal of rows, the roofline of its products and the table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ..errors import UsageError
from ..machine.roofline import Work, time_bound
from ..options import near
from . import ceilings, environment
from .progress import Progress
from .runner import choose_backend
from .table import Table

# name on the command line -> package with a module `bench`
APPLICATIONS = {"hydro": "examples.hydrodynamics", "solvers": "mansard.bench.solvers"}
_SECONDS = 20.0  # per contender and case


class Application(Protocol):
    """The module `bench` of an application."""

    SETS: dict[str, str]  # names of sets of cases, with a line about each; the first is the default

    def cases(self, name: str, device: str) -> Sequence[Any]: ...

    def contenders(self, device: str, peers: bool) -> Sequence[tuple[str, str]]: ...

    def measure(self, case: Any, contender: tuple[str, str], steps: int, seconds: float) -> dict[str, Any]: ...

    def table(self, rows: list[dict[str, Any]]) -> Table: ...


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


def run(args: argparse.Namespace) -> tuple[Table, Path]:
    """Measure every case of the sets with every contender; the table, and where the rows are."""
    application = load(args.operation)
    backend, _ = choose_backend(args.device)
    device = backend.name
    if device not in ("cpu", "cuda"):
        raise UsageError(f"bench {args.operation} --device {args.device}: applications run on cpu and cuda")
    cases = [case for name in _sets(args, application) for case in application.cases(name, device)]
    contenders = application.contenders(device, not args.no_peers)
    facts, limits = environment.describe(backend, args.commit), ceilings.measure(backend)
    args.out.mkdir(parents=True, exist_ok=True)
    journal, rows = args.out / f"{args.operation}.jsonl", []
    with Progress(args.operation, len(cases) * len(contenders)) as shown:
        for case in cases:
            for contender in contenders:
                shown.step(f"{case.name}, {' '.join(contender)}")
                row = application.measure(case, contender, args.repeats, args.seconds or _SECONDS)
                for product in row["products"]:
                    product["bound"] = _bound(product, limits)
                rows.append({**row, "environment": facts})
                with journal.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    return application.table(rows), journal


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
