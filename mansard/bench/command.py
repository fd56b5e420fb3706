"""`mansard bench`: measure, print the table, write the report."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import settings
from ..errors import UsageError
from ..machine.meter import LEAST, Effort
from ..operations import registry
from ..options import add_sizes, at_least, dtypes, near, number, seconds, sizes
from ..plan.problem import DTYPES
from . import applications, doubtful, extension, first_calls, named, overview, provenance, summary
from .batched import tables as batched_tables
from .cases import is_gpu_only
from .choices import command as choices
from .extension import NOTHING, Extension
from .factor import summary as factor_summary
from .factor.operations import STACKED
from .page.write import write as write_page
from .random import command as drawn
from .report import write_report
from .rows import OURS, operation_of
from .runner import CATALOGUES, Options, sets_of
from .runner import run as measure
from .scale import command as scale
from .sparse.cases import of_file
from .sparse.operations import SPARSE
from .store import JOURNAL, RESULTS, load
from .table import Table

_MOST_MISSES = 12  # lines on the terminal
_MOST_LINES = 80  # of a table with a line per case
_QUICK_SECONDS = 140.0  # of a family
_WITHOUT_ENERGY = {  # name on the command line -> why its rows have no joules
    scale.NAME: "a counter has the joules of a whole device, which all ranks share",
    choices.NAME: "choices are compared by their times",
    drawn.NAME: "a drawn problem is measured for a fraction of a second, a window takes 5 s",
}
_SAMPLE_SECONDS = 165.0  # `make bench` promises about three minutes, ceilings and reports included


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = f"an operation (solve, gemm, ...), a group of them ({', '.join(CATALOGUES)}), or an application of the "
    text += f"source tree ({', '.join(applications.APPLICATIONS)}); {scale.NAME}: scaling over ranks of MPI; "
    text += f"{drawn.NAME}: problems drawn at random; {choices.NAME}: choices for unrecorded shapes; "
    text += f"{first_calls.NAME}: seconds of first calls with an empty cache; "
    text += "several: one after the other, a folder each; without it a sample of all groups"
    parser.add_argument("operation", nargs="*", help=text)
    scale.add_argument(parser)
    drawn.add_arguments(parser)
    choices.add_argument(parser)
    add_sizes(parser, sizes, "a number, a range a:b[:step] or a list, for one operation")
    text = "of `powers`: measure a product with the matrix of a Matrix Market file, and its powers"
    parser.add_argument("--matrix", metavar="FILE", help=text)
    text = "comma list of the sets below, or all (default: quick; of everything: sample)"
    parser.add_argument("--set", help=text)
    parser.add_argument("--list", action="store_true", help="list the sets of the family and stop")
    extension.add_argument(parser)
    parser.formatter_class, parser.epilog = argparse.RawDescriptionHelpFormatter, _sets_text()
    text = "comma list: measure only these (default: all; of given sizes: float64)"
    parser.add_argument("--dtype", type=dtypes, help=text)
    devices = ["auto", "cpu", "cuda", "emulated", "reference"]
    text = "auto takes a GPU if there is one; emulated and reference only try the machinery"
    parser.add_argument("--device", default="auto", choices=devices, help=text)
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder of the results (default: ./report); "
                        "an interrupted run with the same folder and sets continues")  # fmt: skip
    text = "stop after so many seconds (default: 140 for quick, 165 for a sample of everything, "
    text += "none otherwise and with --energy); the same command continues"
    parser.add_argument("--seconds", type=seconds, help=text)
    parser.add_argument(
        "--repeats", type=at_least(1), default=7, help="samples per contender, taken in turn (default: 7)"
    )
    parser.add_argument("--no-peers", action="store_true", help="measure only Mansard")
    text = "at most so many elements per operand, for a quick try: operands may then fit the caches (`scale`: exactly)"
    parser.add_argument("--elements", type=number, help=text)
    text = f"rows for results/: from a clean commit, at least {provenance.SAMPLES} samples each, all peers"
    parser.add_argument("--publish", action="store_true", help=text)
    text = "only measure, into the journal; `mansard report` writes tables and pictures"
    parser.add_argument("--no-report", action="store_true", help=text)
    text = "with --publish where there is no git: the commit that these sources are from"
    _add_energy(parser)
    parser.add_argument("--commit", default="", metavar="HASH", help=text)


def _add_energy(parser: argparse.ArgumentParser) -> None:
    text = "measure joules per call, too, where the device has a counter: some 20 s per contender"
    parser.add_argument("--energy", action="store_true", help=text)
    text = f"seconds of a window of --energy, at least {LEAST} (default: 5)"
    parser.add_argument("--energy-window", type=seconds, default=Effort.window, metavar="SECONDS", help=text)
    text = "windows per contender, with rests between them (default: 3)"
    parser.add_argument("--energy-trials", type=at_least(1), default=Effort.trials, metavar="COUNT", help=text)
    text = "of the peers measure only the fastest one's joules"
    parser.add_argument("--energy-best", action="store_true", help=text)


def _effort(args: argparse.Namespace) -> Effort | None:
    """How much energy is measured; idle power and rests are shorter beside short windows."""
    if not args.energy:
        return None
    if args.energy_window < LEAST:
        raise UsageError(f"--energy-window {args.energy_window:g}: a counter's steps need at least {LEAST} s")
    short = min(1.0, args.energy_window / Effort.window)
    return Effort(args.energy_window, args.energy_trials, max(0.3, short * Effort.rest), max(0.5, short * Effort.idle))


def _sets_text(*families: str, added: Extension = NOTHING) -> str:
    """The sets of these families, or of all, each with the first line of what it says about itself."""
    lines = []
    for family in families or CATALOGUES:
        lines.append(f"sets of `mansard bench {family}`:")
        for name, function in sets_of(family, added).items():
            where = " [GPU]" if is_gpu_only(function) else ""
            lines.append(f"  {name:12} {(function.__doc__ or '').strip().splitlines()[0]}{where}")
        lines.append("")
    return "\n".join(lines)


def run(args: argparse.Namespace) -> int:
    """Measure an operation, all of them, or several in turn."""
    for name in args.operation:
        _check_known(name)
    return max(map(_run, each(args)))


def each(args: argparse.Namespace) -> list[argparse.Namespace]:
    """The arguments for each operation that is named; of several, each has its share of the time and its own folder."""
    several, seconds = len(args.operation) > 1, args.seconds
    share = seconds / len(args.operation) if several and seconds is not None else seconds
    asked = [
        {"operation": name, "out": args.out / name if several else args.out, "seconds": share}
        for name in args.operation or [None]
    ]
    return [argparse.Namespace(**vars(args) | one) for one in asked]


def _check_known(name: str) -> None:
    known = (*CATALOGUES, *applications.APPLICATIONS, scale.NAME, choices.NAME, drawn.NAME, first_calls.NAME)
    if name not in (*known, *registry.names()):
        hint = near(name, (*known, *registry.names()))
        raise UsageError(f"bench {name}: name an operation, or one of {', '.join(known)}{hint}")


def _run(args: argparse.Namespace) -> int:
    if args.energy and (why := _WITHOUT_ENERGY.get(args.operation)):
        raise UsageError(f"bench {args.operation} --energy: {why}: leave --energy away")
    if args.operation == scale.NAME:
        return scale.run(args, print_table)
    if args.operation == choices.NAME:
        _still_openblas()
        return choices.run(args, print_table)
    if args.operation == first_calls.NAME:
        return first_calls.run(args, print_table)
    if args.operation in applications.APPLICATIONS:
        return _application(args)
    if args.operation == drawn.NAME:
        _still_openblas()
        return drawn.run(args, print_table)
    loaded = extension.load(args.extension)
    args.family, sets, added = _asked(args, loaded)
    if args.list:
        print(_sets_text(*([args.family] if args.family else []), added=loaded).rstrip())
        return 0
    _still_openblas()
    if args.publish and (refused := _unpublishable(args)):
        raise UsageError(refused)
    limit = args.seconds
    are_quick = set(sets.values()) <= {("quick",), (overview.SET,)} or args.set is None
    if limit is None and are_quick and not (named.is_sized(args) or args.energy):
        limit = _QUICK_SECONDS if args.family else _SAMPLE_SECONDS
    if args.family:
        results = _measured(args, args.family, sets[args.family], args.out, limit, added)
        _told(args, results, args.out, added)
        return _status([results])
    return _all(args, sets, limit, added)


def _application(args: argparse.Namespace) -> int:
    """Time the steps of an application; print its table."""
    if args.list:
        for name, text in applications.load(args.operation).SETS.items():
            print(f"  {name:12} {text}")
        return 0
    _still_openblas()
    tables, journal = applications.run(args, _effort(args))
    for table in tables:
        print_table(table)
    print(f"rows: {journal}")
    return 0


def _asked(args: argparse.Namespace, added: Extension) -> tuple[str | None, dict[str, tuple[str, ...]], Extension]:
    """The group that is measured, None for all of them; its sets; and the extension, with the cases of an operation."""
    if args.matrix is not None:
        if args.operation != "powers" or args.set is not None:
            raise UsageError(f"--matrix {args.matrix}: it is a set of its own, of powers: bench powers --matrix FILE")
        return "powers", {"powers": ("file",)}, added | Extension({"powers": {"file": of_file(args.matrix)}})
    if args.operation is None and named.is_sized(args):
        raise UsageError("--m, --n, --k and --batch are sizes of one operation: name it, as in bench solve --m 16")
    if args.operation is None or (args.operation in CATALOGUES and not named.is_sized(args)):
        groups = [args.operation] if args.operation else list(CATALOGUES)
        return args.operation, {group: _sets(args, group, added) for group in groups}, added
    if args.operation in CATALOGUES and not named.is_measured(args.operation):
        raise UsageError(f"bench {args.operation}: name an operation of this group, whose sizes these can be")
    group, sets, added = named.sets_for(args, added)
    return group, {group: sets}, added


def _sets(args: argparse.Namespace, family: str, added: Extension) -> tuple[str, ...]:
    """The names of the sets of a family that were asked for."""
    known = sets_of(family, added)
    asked = args.set if args.set is not None else "quick" if args.operation else overview.SET
    sets = tuple(known) if asked == "all" else tuple(name.strip() for name in asked.split(",") if name.strip())
    unknown = [name for name in sets if name not in known]
    if unknown or not sets:
        hint = near(unknown[0], known) if unknown else ""
        raise UsageError(f"--set {','.join(unknown)}: sets of {family} are {', '.join(known)}, and all{hint}")
    return sets


def _measured(
    args: argparse.Namespace, family: str, sets: tuple[str, ...], out: Path, limit: float | None, added: Extension,
    ceilings: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The results of a family; an interruption leaves the report of what was measured."""
    effort = (out, limit, args.repeats, not args.no_peers, args.elements)
    more = {"dtypes": args.dtype or DTYPES, "publish": args.publish, "commit": args.commit}
    more |= {"energy": _effort(args), "energy_best": args.energy_best}
    try:
        return measure(Options(sets, args.device, *effort, family=family, **more), added, ceilings)
    except KeyboardInterrupt:
        if (out / RESULTS).exists():
            print(f"report of what was measured: {write_report(load(out), out, added)}")
        raise


def _told(args: argparse.Namespace, results: dict[str, Any], out: Path, added: Extension) -> None:
    """Write the report and print its tables; of several families the tables come later, all in one."""
    if args.no_report:
        left = f", {len(results['unfinished'])} cases left: the same command continues" if results["unfinished"] else ""
        print(f"measured into {out / JOURNAL}{left}; `mansard report {out}` makes the report")
        return
    index = write_report(results, out, added)
    if args.family:
        show(results, added)
    print(f"report: {index}")


def _all(args: argparse.Namespace, sets: dict[str, tuple[str, ...]], limit: float | None, added: Extension) -> int:
    """Every family in turn: ceilings are measured once, and each family has its share of the time that is left."""
    documents: dict[str, dict[str, Any]] = {}
    ceilings, begin = None, time.monotonic()
    for place, family in enumerate(sets, start=1):
        left = None if limit is None else max(1.0, limit - (time.monotonic() - begin))
        share = None if left is None else overview.seconds_of(family, list(sets), left)
        print(f"{family}: {place} of {len(sets)}" + (f", about {left:.0f} s left in all" if left else ""), flush=True)
        documents[family] = _measured(args, family, sets[family], args.out / family, share, added, ceilings)
        _told(args, documents[family], args.out / family, added)
        if ceilings is None:  # measuring them does not count
            ceilings, begin = documents[family]["ceilings"], max(begin, time.monotonic() - (share or 0.0))
    print_table(overview.table(list(documents.values())))
    for family, results in documents.items():
        if count := len(results["unfinished"]):
            print(f"{family}: out of time, {count} case{'s' * (count > 1)} left; the same command continues")
    if not args.no_report:
        print(f"overview: {write_page(documents, args.out)}")
    return _status(documents.values())


def _status(documents: Iterable[dict[str, Any]]) -> int:
    """1 if a result of ours is wrong or a case failed."""
    ours = {row["status"] for results in documents for row in results["rows"] if row["contender"] == OURS}
    return 1 if ours & {"wrong", "failed"} else 0


def _unpublishable(args: argparse.Namespace) -> str:
    """Why what was asked for cannot be published, in one line; "" if it can."""
    if args.repeats < provenance.SAMPLES:
        return f"--publish: a published row has at least {provenance.SAMPLES} samples, not {args.repeats}"
    if args.no_peers or args.elements is not None:
        return f"--publish: not with {'--no-peers' if args.no_peers else '--elements'}"
    return provenance.refusal(args.commit)


def _still_openblas() -> None:
    """OpenBLAS's workers spin for half a second after a call and would slow the next contender. They read this
    variable when the library is loaded, which has happened: so the command starts itself again, once."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    ours = Path(sys.argv[0]).name == "mansard" or (main is not None and main.name == "mansard.__main__")
    if settings.current().openblas_thread_timeout or not ours:  # another program's process is not ours to restart
        return
    sys.stdout.flush()
    command = [sys.executable, "-m", "mansard", *sys.argv[1:]]
    os.execve(sys.executable, command, settings.still_openblas_environment())


def _console() -> Any:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)


def print_table(table: Table) -> None:
    """A table on the terminal; lines that hold a miss are red."""
    from rich.table import Table as Shown

    shown = Shown(*table.columns, title=table.title)
    for line, cells in enumerate(table.cells):
        shown.add_row(*cells, style="bold red" if line in table.bad else None)
    _console().print(shown)


def show(results: dict[str, Any], added: Extension = NOTHING) -> None:
    """Print the tables, what is missing and what is wrong or misses a target."""
    console = _console()
    missed = added.misses(results)
    below = summary.below(missed, bool(added.targets))
    ids = {id(row) for row, _ in missed}
    chosen = summary.tables(results, ids, added.tables)
    long = (*batched_tables.LONG, factor_summary.EVERY)
    chosen = [table for table in chosen if table.title not in long or len(table.cells) <= _MOST_LINES]
    cases = [
        row for row in summary.ours(results["rows"], mode="device") if operation_of(row) not in (*STACKED, *SPARSE)
    ]
    if 0 < len(cases) <= _MOST_LINES:
        chosen = [table for table in chosen if not table.title.startswith("Rectangles")]
        chosen.insert(0, summary.each(results, ids, cases))
    for table in chosen:
        print_table(table)
    for name, reason in results["missing"].items():
        if name == "energy":  # said when the run began
            continue
        console.print(f"missing: {name} ({reason})", highlight=False)
    if results["unfinished"]:
        console.print(f"out of time: {len(results['unfinished'])} cases were not measured; the same command continues")
        for name in results["unfinished"][:_MOST_MISSES]:
            console.print(f"not measured: {name}", highlight=False, markup=False)
        if len(results["unfinished"]) > _MOST_MISSES:
            console.print(f"not measured: {len(results['unfinished']) - _MOST_MISSES} more, listed in the report")
    for text in doubtful.lines(results):
        console.print(text, style="bold red", highlight=False, markup=False)
    for name, how, text in below.cells[:_MOST_MISSES]:
        console.print(f"{below.title.lower()}: {name} ({how}): {text}", highlight=False, markup=False)
    if len(missed) > _MOST_MISSES:
        console.print(f"{below.title.lower()}: {len(missed) - _MOST_MISSES} more, listed in the report")
