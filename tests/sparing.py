"""Which cases a machine goes through: all on a GPU, elsewhere a slice of those compiled for the emulator, and a sixth
to an eighteenth of those compiled for CPUs.

The slice is another one in every run. `--slice-seed` chooses it; without it the clock does (`seed_of`). Every kind of
kernel and dtype is in every slice, and eleven weeks of daily runs go through all cases. `--all-cases` runs all at once.
Of tests that go through no slice, every twelfth emulated one and every fourth one for CPUs runs, and the others within
the next 36 days (`rests`). Slow tests take turns of a few runs (`rotated`).
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from mansard.backends import cuda

Case = TypeVar("Case")
STEP = 75  # of so many emulated cases one is chosen
CPU_STEP = 6  # of so many cases for CPUs one is chosen
TURNS = {"emulated": 12, "cpu": 4}  # of so many tests on a backend, outside slices, one runs


@dataclass
class Share:
    """The seed of this run, and how many cases were chosen of how many."""

    seed: int = 0
    chosen: int = 0
    cases: int = 0
    counting: bool = True  # while tests are collected
    complete: bool = False  # all cases were asked for

    def __str__(self) -> str:
        return f"slice {self.seed % STEP} of {STEP}, --slice-seed {self.seed}"


SHARE = Share()  # set before tests are collected; the same in all processes of a run


def seed_of(seconds: float) -> int:
    """The seed at a time: another one every hour, and the next one after a day, so that daily runs miss none."""
    hours = int(seconds // 3600)
    return hours // 24 + 7 * (hours % 24)


def begin(seed: int | None, complete: bool = False) -> None:
    """Choose the slice of a run, before its tests are collected."""
    SHARE.seed, SHARE.complete = seed_of(time.time()) if seed is None else seed, complete


class Sliced(list[Case]):
    """Cases that were chosen for this run: tests of them rest no further."""


def _count(chosen: Sequence[Case], cases: Sequence[Any]) -> Sliced[Case]:
    if SHARE.counting:
        SHARE.chosen += len(chosen)
        SHARE.cases += len(cases)
    return Sliced(chosen)


def rests(name: str, backend: Any, cases: Sequence[Any]) -> bool:
    """Whether a test on this backend rests in this run. `cases` are the lists that it is one of; slices run whole."""
    if backend not in TURNS or takes_all() or any(isinstance(some, Sliced) for some in cases):
        return False
    resting = (zlib.crc32(name.encode()) + SHARE.seed // 3) % TURNS[backend] != 0
    _count(() if resting else (name,), (name,))
    return resting


def rotated(count: int) -> pytest.MarkDecorator:
    """Mark tests of which one in `count` runs at a time, chosen by name and seed: benchmarks and reports in miniature,
    searches, compile-only tests, long ones of calls. They run always where their file is named."""
    return pytest.mark.rotated(count)


def is_rotated_out(name: str, count: int) -> bool:
    """Whether a test that is `rotated` rests in this run."""
    if takes_all():
        return False
    resting = (zlib.crc32(name.encode()) + SHARE.seed) % count != 0
    _count(() if resting else (name,), (name,))
    return resting


def takes_all() -> bool:
    """Whether this run goes through all cases: on a GPU, or with --all-cases."""
    return SHARE.complete or cuda.unavailable() is None


def spared(cases: Sequence[Case], step: int = STEP) -> Sequence[Case]:
    """Every case on a GPU; otherwise every `step`-th from the seed on, and one of each kind of kernel and dtype."""
    if takes_all():
        return cases
    chosen = list(cases[SHARE.seed % step :: step])
    met = {_kind(case) for case in chosen}
    kinds: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        kinds.setdefault(_kind(case), []).append(case)
    chosen += [some[SHARE.seed % len(some)] for kind, some in kinds.items() if kind not in met]
    return _count(chosen, cases)


def sliced(cases: Sequence[Case], step: int = STEP) -> Sequence[Case]:
    """Every case on a GPU; otherwise every `step`-th from the seed on: for tests that only compile for GPUs, and for
    long lists of programs and derivatives that share their code."""
    return cases if takes_all() else _count(cases[SHARE.seed % step :: step], cases)


def every(count: int, cases: Sequence[Case], part: int = 0) -> Sequence[Case]:
    """Every `count`-th of the chosen cases, which other tests have compiled; others once the slices come round again.
    Different parts have none in common."""
    return cases if takes_all() else Sliced(cases[(SHARE.seed // STEP + part) % count :: count])


def crossed(first: Sequence[Any], second: Sequence[Any], times: int = 1) -> list[tuple[Any, Any]]:
    """Every pair on a GPU; otherwise each of the first with `times` of the second, in turn, and no one is left out."""
    if takes_all():
        return [(one, other) for one in first for other in second]
    turns = max(len(first), -(-len(second) // times))
    met = {(i % len(first), (i * times + j + SHARE.seed) % len(second)) for i in range(turns) for j in range(times)}
    _count(list(met), range(len(first) * len(second)))
    return Sliced((first[i], second[j]) for i, j in sorted(met))


def in_turn(part: int, count: int) -> pytest.MarkDecorator:
    """Run one of `count` tests that go through much of the same code, another one in each run; all on a GPU."""
    away = not takes_all() and SHARE.seed % count != part
    return pytest.mark.skipif(away, reason=f"one of {count} tests of its kind runs, in turn; --all-cases runs all")


def turns(backend: str, forms: Sequence[Case], number: int) -> Sequence[Case]:
    """All forms of a case on CPUs and GPUs; on the emulator one, in turn by the case's number and by slice."""
    return forms if backend != "emulated" or takes_all() else [forms[(number + SHARE.seed) % len(forms)]]


def on_backends(cases: Sequence[Case], step: int = STEP) -> list[tuple[str, Case]]:
    """Pairs of a backend and a case: all cases on GPUs, a sixth on CPUs, a slice on the emulator."""
    chosen = {"cpu": spared(cases, CPU_STEP), "cuda": cases, "emulated": spared(cases, step)}
    return Sliced((backend, case) for backend, some in chosen.items() for case in some)


def _kind(case: Any) -> tuple[Any, ...]:
    parts = case if isinstance(case, tuple) else (case, getattr(case, "config", None))
    return tuple(getattr(part, name) for part in parts for name in ("VARIANT", "dtype") if hasattr(part, name))
