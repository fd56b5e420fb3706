"""`python -m sameness` in tests/: record what is chosen and generated, or compare two recordings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import comparison, journal, recording, sampling

CACHE = recording.TESTS.parent / ".sameness"  # compiled kernels of recordings
SEED = 28


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    return int(options.run(options))


def _record(options: argparse.Namespace) -> int:
    entries = sampling.read(options.problems, options.seed)
    done = recording.record(options.file, entries, options.jobs, options.seconds, options.cache.resolve())
    return 0 if done else 3


def _compare(options: argparse.Namespace) -> int:
    (before, old), (after, new) = journal.read(options.old), journal.read(options.new)
    for name in sorted({*before, *after} - {"package"}):
        if before.get(name) != after.get(name):
            print(f"note: {name} was {before.get(name)} and is {after.get(name)}: digests may differ for that reason")
    renamed = dict(pair.split("=", 1) for pair in options.origin)
    text, is_same = comparison.report(comparison.differences(old, new, renamed))
    print(text)
    print("\nno difference" if is_same else "\nthe recordings differ")
    return 0 if is_same else 1


def _sample(options: argparse.Namespace) -> int:
    entries = sampling.sampled(options.problems, options.seed)
    sampling.write(entries)
    print(f"{sampling.FILE}: {len(entries)} problems")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sameness", description=(__doc__ or "").partition(": ")[2])
    commands = parser.add_subparsers(required=True, metavar="command")
    record = commands.add_parser("record", help="record problems and calls; goes on where it stopped")
    record.add_argument("file", type=Path, metavar="FILE")
    record.add_argument("--problems", type=int, help="only so many, of all families (default: all)")
    record.add_argument("--seed", type=int, default=SEED, help="which ones, where not all are recorded")
    record.add_argument("--jobs", type=int, default=1, help="processes")
    record.add_argument("--seconds", type=float, help="start no problem after this time; call again to go on")
    record.add_argument("--cache", type=Path, default=CACHE, help="folder of compiled kernels")
    record.set_defaults(run=_record)
    compare = commands.add_parser("compare", help="compare two recordings; exit status 1 if they differ")
    compare.add_argument("old", type=Path, metavar="OLD")
    compare.add_argument("new", type=Path, metavar="NEW")
    text = "an origin that has another name now, as in --origin model=rule; as often as needed"
    compare.add_argument("--origin", action="append", default=[], metavar="OLD=NEW", help=text)
    compare.set_defaults(run=_compare)
    sample = commands.add_parser("sample", help="draw other problems, which replaces the file of problems")
    sample.add_argument("--problems", type=int, default=2000)
    sample.add_argument("--seed", type=int, default=SEED)
    sample.set_defaults(run=_sample)
    return parser


if __name__ == "__main__":
    sys.exit(main())
