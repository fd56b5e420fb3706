"""`mansard bench`: measure, print the table, write the report."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from .. import settings
from ..errors import UsageError
from ..options import at_least, dtypes, near, number, seconds
from ..plan.problem import DTYPES
from . import doubtful, provenance, summary, targets
from .batched import tables as batched_tables
from .cases import GPU_ONLY
from .factor import summary as factor_summary
from .factor.operations import STACKED
from .report import write_report
from .rows import OURS, operation_of
from .runner import CATALOGUES, Options
from .runner import run as measure
from .sparse.operations import SPARSE
from .store import JOURNAL, RESULTS, load

_MOST_MISSES = 12  # lines on the terminal
_MOST_LINES = 80  # of a table with a line per case
_QUICK_SECONDS = 140.0  # `make bench` promises three minutes, ceilings and report included


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("family", nargs="?", default="gram", choices=list(CATALOGUES), help="default: gram")
    parser.add_argument("--set", default="quick", help="comma list of the sets below, or all (default: quick)")
    parser.add_argument("--list", action="store_true", help="list the sets of the family and stop")
    parser.formatter_class, parser.epilog = argparse.RawDescriptionHelpFormatter, _sets_text()
    parser.add_argument("--dtype", type=dtypes, default=DTYPES, help="comma list: measure only these (default: all)")
    devices = ["auto", "cpu", "cuda", "emulated", "reference"]
    text = "auto takes a GPU if there is one; emulated and reference only try the machinery"
    parser.add_argument("--device", default="auto", choices=devices, help=text)
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder of the results (default: ./report); "
                        "an interrupted run with the same folder and sets continues")  # fmt: skip
    text = "stop after so many seconds (default: 140 for quick, else none); the same command continues"
    parser.add_argument("--seconds", type=seconds, help=text)
    parser.add_argument(
        "--repeats", type=at_least(1), default=7, help="samples per contender, taken in turn (default: 7)"
    )
    parser.add_argument("--no-peers", action="store_true", help="measure only Mansard")
    text = "at most so many elements per operand, for a quick try: operands may then fit the caches"
    parser.add_argument("--elements", type=number, help=text)
    text = f"rows for results/: from a clean commit, at least {provenance.SAMPLES} samples each, all peers"
    parser.add_argument("--publish", action="store_true", help=text)
    text = "only measure, into the journal; `mansard report` writes tables and pictures"
    parser.add_argument("--no-report", action="store_true", help=text)
    text = "with --publish where there is no git: the commit that these sources are from"
    parser.add_argument("--commit", default="", metavar="HASH", help=text)


def _sets_text(*families: str) -> str:
    """The sets of these families, or of all, each with the first line of what it says about itself."""
    lines = []
    for family, sets in CATALOGUES.items():
        if families and family not in families:
            continue
        lines.append(f"sets of `mansard bench {family}`:")
        for name, function in sets.items():
            where = " [GPU]" if name in GPU_ONLY else ""
            lines.append(f"  {name:12} {(function.__doc__ or '').strip().splitlines()[0]}{where}")
        lines.append("")
    return "\n".join(lines)


def run(args: argparse.Namespace) -> int:
    if args.list:
        print(_sets_text(args.family).rstrip())
        return 0
    _still_openblas()
    known = CATALOGUES[args.family]
    sets = tuple(known) if args.set == "all" else tuple(name.strip() for name in args.set.split(",") if name.strip())
    unknown = [name for name in sets if name not in known]
    if unknown or not sets:
        hint = near(unknown[0], known) if unknown else ""
        raise UsageError(f"--set {','.join(unknown)}: sets of {args.family} are {', '.join(known)}, and all{hint}")
    if args.publish and (refused := _unpublishable(args)):
        raise UsageError(refused)
    limit = args.seconds if args.seconds is not None else (_QUICK_SECONDS if sets == ("quick",) else None)
    try:
        effort = (args.out, limit, args.repeats, not args.no_peers, args.elements)
        source = {"publish": args.publish, "commit": args.commit}
        results = measure(Options(sets, args.device, *effort, family=args.family, dtypes=args.dtype, **source))
    except KeyboardInterrupt:
        if (args.out / RESULTS).exists():
            print(f"report of what was measured: {write_report(load(args.out), args.out)}")
        raise
    if args.no_report:
        left = f", {len(results['unfinished'])} cases left: the same command continues" if results["unfinished"] else ""
        print(f"measured into {args.out / JOURNAL}{left}; `mansard report {args.out}` makes the report")
    else:
        index = write_report(results, args.out)
        show(results)
        print(f"report: {index}")
    ours = [row["status"] for row in results["rows"] if row["contender"] == OURS]
    return 1 if "wrong" in ours or "failed" in ours else 0


def _unpublishable(args: argparse.Namespace) -> str:
    """Why what was asked for cannot be published, in one line; "" if it can."""
    if args.repeats < provenance.SAMPLES:
        return f"--publish: a published row has at least {provenance.SAMPLES} samples, not {args.repeats}"
    if args.no_peers or args.elements is not None:
        return f"--publish: not with {'--no-peers' if args.no_peers else '--elements'}"
    return provenance.refusal(args.commit)


def _still_openblas() -> None:
    """OpenBLAS's workers spin for half a second after a call and would slow whoever is measured next. They read this
    variable when the library is loaded, which has happened: so the command starts itself again, once."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    ours = Path(sys.argv[0]).name == "mansard" or (main is not None and main.name == "mansard.__main__")
    if settings.current().openblas_thread_timeout or not ours:  # another program's process is not ours to restart
        return
    sys.stdout.flush()
    command = [sys.executable, "-m", "mansard", *sys.argv[1:]]
    os.execve(sys.executable, command, settings.still_openblas_environment())


def show(results: dict[str, Any]) -> None:
    """Print the tables, what is missing and what misses its target."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160)
    missed = targets.misses(results)
    ids = {id(row) for row, _ in missed}
    chosen = summary.tables(results, ids)
    long = (*batched_tables.LONG, *factor_summary.LONG)
    chosen = [table for table in chosen if table.title not in long or len(table.cells) <= _MOST_LINES]
    cases = [
        row for row in summary.ours(results["rows"], mode="device") if operation_of(row) not in (*STACKED, *SPARSE)
    ]
    if 0 < len(cases) <= _MOST_LINES:
        chosen = [table for table in chosen if not table.title.startswith("Rectangles")]
        chosen.insert(0, summary.each(results, ids, cases))
    for table in chosen:
        shown = Table(*table.columns, title=table.title)
        for line, cells in enumerate(table.cells):
            shown.add_row(*cells, style="bold red" if line in table.bad else None)
        console.print(shown)
    for name, reason in results["missing"].items():
        console.print(f"missing: {name} ({reason})", highlight=False)
    if results["unfinished"]:
        console.print(f"out of time: {len(results['unfinished'])} cases were not measured; the same command continues")
        for name in results["unfinished"][:_MOST_MISSES]:
            console.print(f"not measured: {name}", highlight=False, markup=False)
        if len(results["unfinished"]) > _MOST_MISSES:
            console.print(f"not measured: {len(results['unfinished']) - _MOST_MISSES} more, listed in the report")
    for text in doubtful.lines(results):
        console.print(text, style="bold red", highlight=False, markup=False)
    for name, how, text in summary.below(missed).cells[:_MOST_MISSES]:
        console.print(f"below target: {name} ({how}): {text}", highlight=False, markup=False)
    if len(missed) > _MOST_MISSES:
        console.print(f"below target: {len(missed) - _MOST_MISSES} more, listed in the report")
