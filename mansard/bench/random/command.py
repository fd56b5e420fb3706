"""`mansard bench random`: draw problems, race them, print what they say."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...options import at_least, near, number, sizes
from ..extension import Extension
from ..runner import Options, choose_backend
from ..runner import run as measure
from ..store import RESULTS, load
from ..table import Table
from .cases import Asked, cases
from .operations import NAMES
from .summary import default_memory, failures, tables, write

NAME = "random"
_LONGEST = 1.5  # seconds of a case from which its contenders have fewer samples
_SHARE = 12  # of the free memory: operands, copies for peers and references have room


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that `random` has beside those of `mansard bench`."""
    text = "of `bench random`: a seed, a range a:b or a list; problem I of a seed is always the same (default: 1)"
    parser.add_argument("--seed", type=sizes, default=(1,), help=text)
    text = "of `bench random`: problems of each seed (default: 50)"
    parser.add_argument("--cases", type=at_least(1), default=50, help=text)
    text = "of `bench random`: comma list of operations or first words (matmul, ragged); others are left out"
    parser.add_argument("--operations", metavar="NAMES", help=text)
    text = "of `bench random`: measure the problems of these numbers alone"
    parser.add_argument("--only", type=sizes, metavar="I", help=text)
    text = "of `bench random`: bytes of operands and result together, at most (default: 2^27 on CPUs, 2^32 on GPUs)"
    parser.add_argument("--memory", type=number, metavar="BYTES", help=text)


def run(args: argparse.Namespace, show: Callable[[Table], None]) -> int:
    """Measure into the folder `random` of --out; 1 if a result of ours is wrong or a case failed."""
    backend, _ = choose_backend(args.device)
    memory = args.memory or _fitting(backend.name, default_memory(backend.name))
    asked = [Asked(seed, memory, args.cases, _operations(args.operations), args.only or ()) for seed in args.seed]
    if args.list:
        print("\n".join(NAMES))
        return 0
    sets = {one.name: cases(one) for one in asked}
    out = args.out / NAME
    options = Options(tuple(sets), args.device, out, args.seconds, args.repeats, not args.no_peers, family=NAME,
                      publish=args.publish, commit=args.commit, longest=_LONGEST)  # fmt: skip
    try:
        results = measure(options, Extension({NAME: sets}))
    except KeyboardInterrupt:
        if (out / RESULTS).exists():
            print(f"summary of what was measured: {write(load(out), out)}")
        raise
    _told(results, out, show)
    return 1 if failures(results) else 0


def _told(results: dict[str, Any], out: Path, show: Callable[[Table], None]) -> None:
    for table in tables(results):
        show(table)
    for line in failures(results):
        print(line)
    for name, reason in results["missing"].items():
        print(f"missing: {name} ({reason})")
    if left := len(results["unfinished"]):
        print(f"out of time: {left} case{'s' * (left > 1)} left; the same command continues")
    print(f"summary: {write(results, out)}")


def _operations(text: str | None) -> tuple[str, ...]:
    """Names as the distribution has them; a first word stands for all that begin with it."""
    if text is None:
        return NAMES
    found: list[str] = []
    for word in (word.strip() for word in text.split(",") if word.strip()):
        chosen = [name for name in NAMES if name == word or name.partition("-")[0] == word]
        if not chosen:
            raise UsageError(f"--operations {word}: operations are {', '.join(NAMES)}{near(word, NAMES)}")
        found += chosen
    return tuple(name for name in NAMES if name in found)


def _fitting(backend_name: str, memory: int) -> int:
    """The default limit, halved until the machine has several times as much: its commands name it then."""
    if backend_name == "cuda":
        import cupy

        free = int(cupy.cuda.runtime.memGetInfo()[0])
    elif hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:
        return memory
    while memory > 1 << 20 and memory * _SHARE > free:
        memory //= 2
    return memory
