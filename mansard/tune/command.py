"""`mansard tune gram --m 1:64 --dtype float64`: tune a range of shapes, show the winners, export a table."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from ..errors import BackendUnavailable, MansardError
from ..families import family_of
from ..model import machine
from ..model.calibrate import calibrate
from ..plan.problem import DTYPES, Problem
from . import observer as observers
from . import table
from .ahead import compile_ahead
from .cases import CASES
from .runner import DeviceLost
from .session import TuningResult, tune_problem
from .strategy import STRATEGIES

_ELEMENTS = {"cuda": 1 << 28, "cpu": 1 << 24, "emulated": 1 << 11}  # K times M: well beyond the caches, or quickly done


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("operation", choices=tuple(CASES), help="the family to tune")
    add("--m", type=sizes, default=None, help="columns of A (tsm2r: its rows): a:b[:step] (b included), lists 1,2,5:8")
    add("--n", type=sizes, default=None, help="columns of B (default: the same as M)")
    add("--dtype", type=dtypes, default=("float64",), help=f"comma-separated: {', '.join(DTYPES)}")
    add("--k", type=number, default=None, help="rows (tsm2r: columns of A; default: by --elements)")
    add("--elements", type=number, default=None, help="K times max(M, N), for example 2^28")
    add("--layout", choices=("row", "col"), default="row")
    add("--same", action="store_true", help="B is A: half the work (needs M = N)")
    add("--any-order", action="store_true", help="admit reductions whose order varies (deterministic=False)")
    add("--strategy", choices=tuple(STRATEGIES), default="top")
    add("--limit", type=int, default=24, help="candidates per problem")
    add("--seed", type=int, default=0, help="of the random strategy")
    add("--backend", choices=("cuda", "cpu", "emulated"), default=None, help="default: the GPU if there is one")
    add("--seconds", type=float, default=float("inf"), help="stop after so many seconds; a second run continues")
    add("--export", action="store_true", help="write the table of this device's winners that is shipped")
    add("--restarts", type=int, default=20, help="new processes to start when a candidate takes the GPU down")


def run(args: argparse.Namespace) -> int:
    """Tune, print the winners, export if asked. Status 1 if some problem has no working configuration."""
    backend, family = make_backend(args.backend), family_of(args.operation)
    todo = list(problems(args, backend.name))
    print(f"{len(todo)} problems of {args.operation} on {backend.device.name} ({backend.name})", flush=True)
    if todo and backend.name in ("cpu", "cuda") and not machine.known(backend.device).measured:
        print("measuring this device's ceilings first", flush=True)
        calibrate(backend)
    begin = time.monotonic()
    try:
        results = tune_all(todo, backend, args, begin + args.seconds)
    except DeviceLost as error:
        return _restart(args, error, time.monotonic() - begin)
    if results:
        print_winners(results)
    if len(results) < len(todo):
        print(f"the time ended after {len(results)} of {len(todo)} problems: run again to continue")
    if args.export:
        path, count = table.export(backend.device, family)
        print(f"{count} problems written to {path}")
    return 0 if all(result.winner for result in results) else 1


def tune_all(todo: list[Problem], backend: Any, args: argparse.Namespace, deadline: float) -> list[TuningResult]:
    """Tune one problem after the other until the deadline; a problem that breaks is reported and passed over."""
    results = []
    compile_ahead(todo, backend.device, args.strategy, args.limit, args.seed, _compiled)
    with observers.for_terminal(len(todo)) as observer:
        for problem in todo:
            if time.monotonic() > deadline:
                break
            try:
                results.append(
                    tune_problem(
                        problem, backend, args.strategy, args.limit, observer, seed=args.seed, deadline=deadline
                    )
                )
            except DeviceLost:
                raise
            except (MansardError, MemoryError, RuntimeError) as error:
                print(f"{problem}: {type(error).__name__}: {error}", file=sys.stderr)
                results.append(TuningResult(problem, None, []))
    return results


def _compiled(done: int, count: int) -> None:
    """One line in ten while the sweep is compiled."""
    if done == count or done % max(1, count // 10) == 0:
        print(f"compiled ahead: {done} of {count} problems", flush=True)


def problems(args: argparse.Namespace, backend: str) -> Iterator[Problem]:
    """The problems a command line describes, in the order in which they are tuned."""
    if not args.m:
        return  # nothing but --export
    family = family_of(args.operation)
    for dtype in args.dtype:
        for M in args.m:
            for N in (M,) if args.same or not args.n else args.n:
                entries = getattr(family.spec, "entries", max)(M, N)  # of an operand, per row or product
                K = args.k or max(1, (args.elements or _ELEMENTS[backend]) // entries)
                yield family.spec.from_options(dtype, M, N, K, args.layout, args.same, not args.any_order)


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
    print(f"{'dtype':11}{'M':>5}{'N':>5}{'K':>12}{'us':>10}{'% limit':>9}{'vendor us':>11}  winner")
    for result in results:
        problem, trial, vendor = result.problem, result.winner, result.vendor
        first, second, *_, last = (size for _, size in problem.sizes)
        row = f"{problem.dtype:11}{first:5}{second:5}{last:12}"
        if trial is None:
            print(f"{row}{'-':>10}{'-':>9}{'-':>11}  no configuration worked: {result.failures()}")
            continue
        other = f"{vendor.median * 1e6:.4g}" if vendor else "-"
        times = f"{trial.median * 1e6:10.4g}{trial.percent or math.nan:9.1f}{other:>11}"
        config = " ".join(f"{name}={value}" for name, value in trial.config.items())
        print(f"{row}{times}  {'the vendor, before ' if result.vendor_wins else ''}{config}")


def sizes(text: str) -> tuple[int, ...]:
    """`1,2,5:8` -> (1, 2, 5, 6, 7, 8); `a:b:step` counts in steps, both ends included."""
    found: list[int] = []
    for part in text.split(","):
        try:
            ends = [int(end) for end in part.split(":")]
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r} is neither a number nor a range a:b[:step]") from None
        first, last, step = ends[0], ends[min(1, len(ends) - 1)], ends[2] if len(ends) == 3 else 1
        if len(ends) > 3 or first < 1 or last < first or step < 1:
            raise argparse.ArgumentTypeError(f"{part!r}: a range a:b[:step] with 1 <= a <= b and step >= 1 is needed")
        found.extend(range(first, last + 1, step))
    return tuple(dict.fromkeys(found))


def dtypes(text: str) -> tuple[str, ...]:
    """Comma-separated dtypes, or `all`."""
    found = DTYPES if text == "all" else tuple(text.split(","))
    unknown = [name for name in found if name not in DTYPES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: dtypes are {', '.join(DTYPES)}, or all")
    return found


def number(text: str) -> int:
    """`2^28`, `2**28`, `1e8` or `4096`."""
    base, power, exponent = text.replace("**", "^").partition("^")
    try:
        value = int(base) ** int(exponent) if power else int(float(base)) if "e" in base.lower() else int(base)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 4096, 2^28 or 1e8") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be at least 1")
    return value


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
