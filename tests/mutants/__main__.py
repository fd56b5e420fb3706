"""`python -m mutants` in tests/: plant every bug in a copy of the tree, run the tests that claim the file, report."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from fnmatch import fnmatch
from pathlib import Path
from threading import Lock

from .journal import Journal
from .patches import Mutant, read_all
from .trial import ROOT, Outcome, try_mutant, try_unchanged

FOLDER = ROOT / ".mutants"  # journal and kernels, unless options name others


def main() -> int:
    options = _parser().parse_args()
    mutants = [mutant for mutant in read_all() if _chosen(mutant, options.only)]
    if options.list:
        print("\n".join(f"{mutant.name:44} {mutant.bug}" for mutant in mutants))
        return 0
    bench = Bench(Journal(options.journal, ROOT, options.fresh), options.cache, options.limit)
    deadline = time.monotonic() + options.seconds if options.seconds else float("inf")
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(bench.outcome, mutant, deadline) for mutant in mutants]
        try:
            wait(futures)
        except KeyboardInterrupt:
            print("interrupted: mutants under way are finished, others are left for the next run", flush=True)
            pool.shutdown(wait=False, cancel_futures=True)
    return _report(mutants, [None if future.cancelled() else future.result() for future in futures])


class Bench:
    """Tries mutants, each after its tests passed without it, and keeps what came out."""

    def __init__(self, journal: Journal, cache: Path, limit: float) -> None:
        self._journal, self._cache, self._limit = journal, cache, limit
        self._lock = Lock()  # one baseline at a time: mutants of one file share it

    def outcome(self, mutant: Mutant, deadline: float) -> Outcome | None:
        """What became of a mutant: from the journal, or by a run; None past the deadline."""
        key = self._journal.key_of(mutant)
        known = self._journal.known(key)
        if known is None:
            if time.monotonic() > deadline:
                return None
            known = self._baseline(mutant)
            if known.verdict == "passed":
                limit = max(60.0, 4 * known.seconds) if mutant.ends == "hang" else self._limit
                known = try_mutant(mutant, self._cache, limit)
                self._journal.write(key, mutant.name, known)
        print(_line(mutant, known), flush=True)
        return known

    def _baseline(self, mutant: Mutant) -> Outcome:
        key = self._journal.key_without(mutant)
        with self._lock:
            known = self._journal.known(key)
            if known is None or known.verdict != "passed":
                known = try_unchanged(mutant, self._cache, self._limit)
                self._journal.write(key, f"without {mutant.name}", known)
        return known


def _report(mutants: list[Mutant], outcomes: list[Outcome | None]) -> int:
    """Print how many were killed, and every other one; the exit status is 0 if all were."""
    counts = Counter(outcome.verdict if outcome else "not run" for outcome in outcomes)
    print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()) + f" of {len(mutants)}")
    for mutant, outcome in zip(mutants, outcomes, strict=True):
        if outcome is None or outcome.verdict != "killed":
            print(f"  {mutant.name}: {outcome.verdict if outcome else 'not run'}: {mutant.bug}")
    return 0 if set(counts) <= {"killed"} else 1


def _line(mutant: Mutant, outcome: Outcome) -> str:
    return f"{outcome.verdict:9} {outcome.seconds:6.1f} s  {mutant.name:44} {outcome.by[:100]}"


def _chosen(mutant: Mutant, patterns: list[str]) -> bool:
    return not patterns or any(fnmatch(mutant.name, f"*{pattern}*") for pattern in patterns)


def _parser() -> argparse.ArgumentParser:
    named = os.environ.get("MANSARD_CACHE_DIR")
    parser = argparse.ArgumentParser(prog="mutants", description=sys.modules[__package__].__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names that contain it (globs)")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--seconds", type=float, help="start no further mutant after this time; call again to go on")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which the tests of a mutant hang")
    parser.add_argument("--fresh", action="store_true", help="forget the journal first")
    parser.add_argument("--list", action="store_true", help="print the bugs and stop")
    parser.add_argument("--journal", type=Path, default=FOLDER / "journal.jsonl")
    parser.add_argument("--cache", type=Path, default=Path(named) if named else FOLDER / "cache", help="kernels")
    return parser


if __name__ == "__main__":
    sys.exit(main())
