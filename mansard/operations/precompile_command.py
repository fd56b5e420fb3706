"""`mansard precompile FILE`: compile ahead what a program that ran with `MANSARD_RECORD=FILE` asked for."""

from __future__ import annotations

import argparse
import sys

from .. import units
from .precompile import Outcome, precompile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="problems, as a run with MANSARD_RECORD=file has written them")
    parser.add_argument("--jobs", type=int, metavar="n", help="compilers side by side (default: one per core)")


def run(args: argparse.Namespace) -> int:
    """Compile, with a line for each kernel; 1 if some could not be compiled."""
    outcomes = precompile(args.file, threads=args.jobs, progress=_show)
    failed = sum(1 for one in outcomes if one.error)
    seconds = sum(one.seconds for one in outcomes)
    ready = units.count(len(outcomes) - failed, "problem")
    print(f"{ready} ready, {failed} failed; {units.duration(seconds, 3)} of compiling")
    return int(failed > 0)


def _show(done: int, count: int, last: Outcome) -> None:
    text = f"failed: {last.error}" if last.error else units.duration(last.seconds, 2)
    print(f"[{done}/{count}] {last.what}: {text}", file=sys.stderr, flush=True)
