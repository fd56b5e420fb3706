"""How many cases a machine goes through: all where there is a GPU, some where each is compiled for the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from conftest import UNAVAILABLE

Case = TypeVar("Case")


def spared(cases: Sequence[Case], step: int = 16) -> Sequence[Case]:
    """Every case on a GPU; otherwise every `step`-th, and the first of each kind of kernel and dtype."""
    if UNAVAILABLE["cuda"]() is None:
        return cases
    firsts = {_kind(case): number for number, case in reversed(list(enumerate(cases)))}
    met = {_kind(case) for case in cases[::step]}
    chosen = {number for kind, number in firsts.items() if kind not in met} | set(range(0, len(cases), step))
    return [cases[number] for number in sorted(chosen)]


def crossed(first: Sequence[Any], second: Sequence[Any], times: int = 1) -> list[tuple[Any, Any]]:
    """Every pair on a GPU; otherwise each of the first with `times` of the second, in turn, and no one is left out."""
    if UNAVAILABLE["cuda"]() is None:
        return [(one, other) for one in first for other in second]
    turns = max(len(first), -(-len(second) // times))
    met = [(i % len(first), (i * times + j) % len(second)) for i in range(turns) for j in range(times)]
    return [(first[i], second[j]) for i, j in sorted(set(met))]


def _kind(case: Any) -> tuple[Any, ...]:
    parts = case if isinstance(case, tuple) else (case, getattr(case, "config", None))
    return tuple(getattr(part, name) for part in parts for name in ("VARIANT", "dtype") if hasattr(part, name))
