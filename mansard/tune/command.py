"""`mansard tune gram --m 1:64 --dtype float64`: tune a range of shapes, show the winners, export a table."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from .. import units
from ..errors import BackendUnavailable, MansardError, UsageError, known_text
from ..kernels import family_of
from ..machine import energy, machine
from ..machine.calibrate import calibrate
from ..operations import registry
from ..operations.sizes import Asked
from ..options import add_sizes, at_least, dtypes, number, seconds, sizes
from ..plan.problem import DTYPES, Problem
from ..records.trials import ENERGY, GOALS, TIME, store_path
from ..records.verdict import DOUBTFUL
from . import observer as observers
from . import table
from .ahead import compile_ahead
from .cases import CASES
from .energy import tune_energy
from .forget import forget
from .runner import DeviceLost
from .session import TuningResult, tune_problem
from .strategy import STRATEGIES

_ELEMENTS = {"cuda": 1 << 28, "cpu": 1 << 24, "emulated": 1 << 11}  # of an operand: well beyond caches, or soon done


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class, parser.epilog = argparse.RawDescriptionHelpFormatter, registry.help_text(tunable())
    add = parser.add_argument
    add("operation", nargs="?", metavar="operation", help="what to tune: one of those below")
    add_sizes(parser, sizes, "a number, a range a:b[:step] (b included), or a list 1,2,5:8")
    add("--dtype", type=dtypes, default=("float64",), help=f"comma-separated: {', '.join(DTYPES)}, or all")
    devices = ("cuda", "cpu", "emulated")
    add("--device", choices=devices, help="default: the GPU if there is one, else the CPU")
    add("--backend", dest="device", choices=devices, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    add("--elements", type=number, help="entries of the largest operand, for example 2^28: sets the longest size")
    add("--layout", choices=("row", "col"), default="row", help="whether rows or columns are adjacent")
    add("--same", action="store_true", help="gram: B is A, half the work")
    add("--any-order", action="store_true", help="admit sums whose order varies (deterministic=False)")
    add("--strategy", choices=tuple(STRATEGIES), default="top", help="how candidates are chosen (default: top)")
    add("--limit", type=at_least(1), default=24, help="candidates per problem (default: 24)")
    text = "what is minimised (default: time); energy needs a counter; calls take its winners with MANSARD_GOAL=energy"
    add("--goal", choices=GOALS, default=TIME, help=text)
    add("--seed", type=at_least(0), default=0, help="seed of the random strategy")
    add("--seconds", type=seconds, default=math.inf, help="stop after so many seconds; a second run continues")
    add("--forget", action="store_true", help="forget the tuning records of the operation, or all, and stop")
    add("--export", action="store_true", help="write this device's winners as the table that Mansard ships")
    add("--restarts", type=at_least(0), default=20, help="new processes to start when a candidate takes the GPU down")


def run(args: argparse.Namespace) -> int:
    """Tune, print the winners, export if asked. Status 1 if some problem has no working configuration."""
    _check_operation(args.operation)
    if args.forget:
        return _forget(args)
    begin = time.monotonic()
    sized = any((args.m, args.n, args.k, args.batch))
    if args.operation is None or not (args.export or sized):
        raise UsageError("name an operation and its sizes, for example: mansard tune gram --m 1:64")
    backend = make_backend(args.device)
    todo = list(problems(args, backend.name)) if sized else []
    if todo:
        families = ", ".join(dict.fromkeys(problem.operation for problem in todo))
        whose = args.operation + (f" (kernels of {families})" if families != args.operation else "")
        print(f"{units.count(len(todo), 'problem')} of {whose} on {backend.device.name} ({backend.name})")
        _check_store(todo[0], backend)
        if args.goal == ENERGY and (why := energy.unreadable(backend)):
            raise MansardError(f"--goal energy: the joules of {backend.device.name} {why}")
        begin += _ceilings(backend, args.seconds)
    try:
        results = tune_all(todo, backend, args, begin + args.seconds)
    except DeviceLost as error:
        return _restart(args, error, time.monotonic() - begin)
    _conclude(results, todo)
    if args.export:
        for family in _families(args.operation):
            path, count = table.export(backend.device, family_of(family), goal=args.goal)
            print(f"{units.count(count, 'problem')} written to {path}")
    return 0 if all(result.winner for result in results) else 1


def tunable() -> tuple[str, ...]:
    """Names of the operations that have a kernel which is measured without the caller's arrays."""
    return tuple(name for name in registry.OPERATIONS if _families(name))


def _families(name: str) -> list[str]:
    """Families behind an operation whose kernels can be tuned."""
    return [family for family in registry.named(name).families if family in CASES and name not in _BY_MATRIX]


_BY_MATRIX = ("matrix_powers", "powers")  # their plans depend on a matrix: ms.tune("matrix_powers", A, p)


def _check_operation(name: str | None) -> None:
    if name is not None and (name not in registry.names() or not _families(name)):
        hint = registry.near(name) if name not in registry.names() else ""
        raise UsageError(f"{name} cannot be tuned: there are {', '.join(tunable())}{hint}")


def _forget(args: argparse.Namespace) -> int:
    operation = registry.named(args.operation) if args.operation else None
    families = tuple(_families(args.operation)) if operation else ()
    count = forget(families, operation.want if operation else "", args.device)
    print(f"forgot {units.count(count, 'record')} of {args.operation or 'all operations'}")
    return 0


def _check_store(problem: Problem, backend: Any) -> None:
    """Nothing is measured whose record could not be written."""
    path = store_path(backend.device, problem.operation)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        open(path, "a").close()
    except OSError as error:
        text = f"{path}: {error.strerror}: tuning records cannot be written; set MANSARD_CACHE_DIR to another folder"
        raise MansardError(text) from error


def _ceilings(backend: Any, limit: float) -> float:
    """Measure this device's ceilings if they are not known; returns the seconds it took."""
    known, begin = machine.known(backend.device), time.monotonic()
    if backend.name in ("cpu", "cuda") and not known.measured:
        extra = "" if limit == math.inf else "; --seconds counts from then on"
        print(f"measuring this device's ceilings first, some 5 to 20 s{extra}", flush=True)
        known = calibrate(backend)
    if known.noise:
        print("the ceilings were measured on a busy machine and may be too low:")
        print("".join(f"  {text}\n" for text in known.noise), end="", flush=True)
    return time.monotonic() - begin


def _conclude(results: list[TuningResult], todo: list[Problem]) -> None:
    """The winners, and what there is to know about them."""
    if results:
        print_winners(results)
    doubtful = [trial for result in results for trial in result.trials if trial.status == DOUBTFUL]
    if doubtful:
        print(f"{units.count(len(doubtful), 'result')} not recorded, for example {doubtful[0].reason}")
        print("run `mansard info --remeasure` when the machine is idle, then tune again")
    if len(results) < len(todo):
        print(f"the time ended after {len(results)} of {units.count(len(todo), 'problem')}: run again to continue")


def tune_all(todo: list[Problem], backend: Any, args: argparse.Namespace, deadline: float) -> list[TuningResult]:
    """Tune one problem after the other until the deadline; a problem that breaks is reported and passed over."""
    results: list[TuningResult] = []
    compile_ahead(todo, backend.device, args.strategy, args.limit, args.seed, _compiled, deadline)
    minimise = tune_energy if args.goal == ENERGY else tune_problem
    with observers.for_terminal(len(todo)) as observer:
        for problem in todo:
            if time.monotonic() >= deadline:
                break
            try:
                results.append(
                    minimise(
                        problem, backend, args.strategy, args.limit, observer, seed=args.seed, deadline=deadline
                    )
                )
            except DeviceLost:
                raise
            except KeyboardInterrupt:
                done = f"{len(results)} of {units.count(len(todo), 'problem')}"
                print(f"{done} tuned; what was tried is recorded: run again to continue", file=sys.stderr)
                raise
            except (MansardError, MemoryError, RuntimeError) as error:
                print(f"{problem}: {known_text(error) or repr(error)}", file=sys.stderr)
                results.append(TuningResult(problem, None, []))
    return results


def _compiled(done: int, count: int) -> None:
    """One line in ten while the sweep is compiled."""
    if done == count or done % max(1, count // 10) == 0:
        print(f"compiled ahead: {done} of {count} problems", flush=True)


def problems(args: argparse.Namespace, backend: str) -> Iterator[Problem]:
    """The problems a command line describes, in the order in which they are tuned; those of all steps of an operation
    that is made of others."""
    lists = [getattr(args, name) or (None,) for name in ("m", "n", "k", "batch")]
    found: dict[Problem, None] = {}
    for dtype in args.dtype:
        for m, n, k, batch in itertools.product(*lists):
            one = Asked(
                args.operation, dtype, m, n, k, batch, args.layout, args.same, not args.any_order, backend == "cpu"
            )
            one = registry.with_long(one, args.elements or _ELEMENTS.get(backend, _ELEMENTS["cpu"]))
            found |= dict.fromkeys(problem for _, problem in registry.problems_of(one) if problem.operation in CASES)
    yield from found


def make_backend(asked: str | None) -> Any:
    """The backend to tune: the one asked for, or the GPU if there is one, or the CPU."""
    from ..backends import cpu, cuda, emulated

    modules = {"cuda": cuda, "cpu": cpu, "emulated": emulated}
    module: Any = modules[asked] if asked else (cpu if cuda.unavailable() else cuda)
    reason = module.unavailable()
    if reason:
        raise BackendUnavailable(reason)
    return module.backend()


def print_winners(results: list[TuningResult]) -> None:
    """One line per problem: the winning configuration, its share of the limit, and the vendor's time."""
    print(f"{'dtype':11}{'sizes':34}{'time':>10}{'% limit':>9}{'vendor':>11}  winner")
    for result in results:
        trial, vendor = result.winner, result.vendor
        row = f"{result.problem.dtype:11}{' '.join(f'{name}={size}' for name, size in result.problem.sizes):34}"
        if trial is None:
            print(f"{row}{'-':>10}{'-':>9}{'-':>11}  no configuration worked: {result.failures()}")
            continue
        other = units.duration(vendor.median) if vendor else "-"
        share = f"{trial.percent:.1f}" if trial.percent else "-"
        config = " ".join(f"{name}={value}" for name, value in trial.config.items())
        before = "the vendor, before " if result.vendor_wins else ""
        joules = f"{units.quantity(trial.cost, 'J')} per call: " if trial.joules else ""
        print(f"{row}{units.duration(trial.median):>10}{share:>9}{other:>11}  {before}{joules}{config}")


def _restart(args: argparse.Namespace, error: DeviceLost, spent: float) -> int:
    """Continue in a new process: this one's context is gone, and the trial at fault is on record."""
    print(f"{error}", file=sys.stderr, flush=True)
    if args.restarts < 1:
        return 1
    # argparse lets the last of repeated options win
    left = ["--restarts", str(args.restarts - 1), "--seconds", str(args.seconds - spent)]
    command = [sys.executable, "-m", "mansard", *sys.argv[1:], *left]
    print(f"continuing in a new process ({args.restarts - 1} restarts left)", file=sys.stderr, flush=True)
    os.execv(sys.executable, command)
