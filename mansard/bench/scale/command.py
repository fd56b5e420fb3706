"""`mansard bench scale`: the same command launches ranks and, under mpiexec, is one of them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import settings
from ...backends.select import select
from ...distributed.messages import mpi
from ..environment import describe
from ..table import Table
from .launch import counts_of, launch
from .report import load, misses, network_text, picture, table
from .runs import WIDTH, cases, measure, network

NAME = "scale"
_ELEMENTS = 6_400_000  # of each rank's tall matrix, 51 MB
_PER_POINT = 15.625  # elements of the tall matrix per point of the grid: 2e6 x 32 beside 160^3
_SECONDS = 600  # of a launch, at most
_SAMPLED = 8.0  # seconds of samples in a launch, ten operations together


def add_argument(parser: argparse.ArgumentParser) -> None:
    """The option that `scale` has beside those of `mansard bench`."""
    text = "of `bench scale`: comma list of numbers of ranks, each launched with mpiexec (default: 1,2,4)"
    parser.add_argument("--ranks", default="1,2,4", help=text)


def run(args: argparse.Namespace, show: Callable[[Table], None]) -> int:
    """Measure as a rank of a launch, or launch every number of ranks; then write and show table and picture."""
    out = args.out / NAME
    launched = settings.current().launched_ranks
    if launched:
        comm = mpi().COMM_WORLD
        _measure(comm, out, args)
        if comm.rank:
            return 0
    else:
        for count in counts_of(args.ranks):
            print(f"{count} rank{'s' * (count > 1)}", flush=True)
            _launch(count, args)
    if not args.no_report:
        _report(out, show)
    return 0


def _launch(count: int, args: argparse.Namespace) -> None:
    """Run this command on so many ranks, each with one thread."""
    mine = [sys.executable, "-m", "mansard", "bench", NAME, "--out", str(args.out), "--no-report"]
    mine += ["--seconds", str(_limit(args)), *(["--elements", str(args.elements)] if args.elements else [])]
    launch(count, mine, _SECONDS)


def _limit(args: argparse.Namespace) -> float:
    """Seconds of samples in one launch."""
    return _SAMPLED if args.seconds is None else float(args.seconds)


def _measure(comm: Any, out: Path, args: argparse.Namespace) -> None:
    """All rows of this number of ranks, into ranks-<number>.json."""
    elements = args.elements or _ELEMENTS
    rows, side = elements // WIDTH, max(8, round((elements / _PER_POINT) ** (1 / 3)))
    found = []
    for scaling in ("weak", "strong"):
        share = 1 if scaling == "weak" else comm.size
        for case in cases(comm, max(1, rows // share), max(1, side // share), side):
            found.append(measure(case, comm, _limit(args) / 10) | {"scaling": scaling})
    net = network(comm)
    if comm.rank == 0:
        environment = describe(select(("cpu", 0), None))
        out.mkdir(parents=True, exist_ok=True)
        document = {"ranks": comm.size, "environment": environment, "network": net, "rows": found}
        (out / f"ranks-{comm.size}.json").write_text(json.dumps(document, indent=1))


def _report(out: Path, show: Callable[[Table], None]) -> None:
    """The table on the terminal and in Markdown, and the picture where matplotlib is installed."""
    runs = load(out)
    found = table(runs)
    show(found)
    about = "\n\n".join(text for text in (network_text(runs), misses(runs)) if text)
    print(about)
    text = f"# {found.title}\n\n{found.markdown()}\n\n{about}\n"
    (out / "scale.md").write_text(text)
    try:
        picture(runs, out / "scale.png")
        print(f"report: {out / 'scale.md'}, {out / 'scale.png'}")
    except ImportError:
        print(f"report: {out / 'scale.md'} (no picture: pip install matplotlib)")
