"""Contenders of factorizations: what they give by its parts, and how many matrices a slow one is measured on.

Parts have the names of the kernels' operands: F (a factor, an inverse, a determinant), X (a solution), Q, PIVOTS, TAU
and INFO; H is F transposed, as NumPy gives it, and PIVOTS_1 counts from one, as LAPACK does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..cases import Case
from ..entries import Entry
from ..peers import Peer
from .operations import MOST, RAGGED, SPECTRAL

Race = Callable[..., float]  # of a call on pairs of operands, and what must come before it outside the clock
_LEAST = 1 << 28  # bytes of a part of the batch, unless that takes longer than
_LONGEST = 2.0  # seconds, as loops over matrices do, whose time is in proportion to their number anyway
_MORE, _TELLS = 8, 0.01  # times as many matrices are tried next, until a call takes so many seconds
_WIDE = 32  # rows beyond which most libraries take eigenvalue problems one by one, milliseconds each
_CLOSE, _RACE = 3, 0.1  # times the fastest, within which spellings race again; seconds of that race


class Effort(NamedTuple):
    """How many matrices a peer is measured on."""

    first: int = 64  # matrices of the first, shortest call
    slow: float = 0.3  # seconds of a call above which a peer is measured on a part of the batch
    longest: float = _LONGEST  # seconds of a call on that part
    most: int = 1 << 62  # matrices that the peer takes at once


def effort_of(case: Case) -> Effort:
    """The effort of any peer. Eigenvalues and singular values have many peers that take matrices one by one: these are
    measured on few. PyTorch's calls fail with more than 65 535."""
    if case.operation not in SPECTRAL:
        return Effort()
    return Effort(4 if case.M > _WIDE else 64, 0.02, 0.1, MOST)


class Parts(NamedTuple):
    """A result by its parts, and how many matrices it is of."""

    arrays: dict[str, Any]
    matrices: int


@dataclass(frozen=True)
class InPlace:
    """A way that works where its operands lie: `restore` copies them there, `run` alone is timed."""

    restore: Callable[..., Any]
    run: Callable[..., dict[str, Any]]

    def __call__(self, A: Any, B: Any) -> dict[str, Any]:
        self.restore(A, B)
        return self.run(A, B)


class FactorEntry(Entry):
    """A contender whose calls give several arrays: a dict of parts, or a tuple of those in `names`."""

    def __init__(
        self, name: str, spelling: str, run: Callable[[int], Any], give: Callable[[Any], Any], case: Case,
        names: tuple[str, ...] = (), out: Any = None, count: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, spelling, run, give, out)
        self.names, self.count, self.single = names, case.K if count is None else count, is_single(case)
        self.scale = case.K / self.count
        if self.count < case.K:
            self.note = f"measured on {self.count} of {case.K} matrices, time scaled"

    def result(self) -> Any:
        made = self.again(0)
        if self.names:
            made = dict(zip(self.names, made if isinstance(made, tuple) else (made,), strict=True))
        arrays = {part: self._give(one) for part, one in made.items()}
        return Parts({part: one[None] for part, one in arrays.items()} if self.single else arrays, self.count)


def is_single(case: Case) -> bool:
    """Whether one matrix is handed over as such, not as a stack."""
    return case.mode == "eager" and case.K == 1


def alone(case: Case, array: Any) -> Any:
    """The only matrix of a case that has one, otherwise the stack."""
    return array[0] if is_single(case) and array is not None else array


def enter(peer: Peer, case: Case, pairs: list[tuple[Any, ...]], race: Race) -> FactorEntry:
    """The peer's entry with its fastest spelling; `race` times one call."""

    def take(array: Any) -> Any:
        if array is None:
            return None
        return peer.take_ragged(case, array) if case.form == RAGGED else alone(case, peer.take(array))

    taken = [tuple(map(take, pair)) for pair in pairs]
    ways, effort = peer.spellings(case), getattr(peer, "effort", effort_of)(case)

    def running(label: str, count: int) -> tuple[Callable[[int], Any], ...]:
        """Return the call on the first `count` matrices and, for calls in place, what restores their operands."""
        way, whole = ways[label], count == case.K
        given = taken if whole else [tuple(None if one is None else one[:count] for one in each) for each in taken]
        parts = (way.run, way.restore) if isinstance(way, InPlace) else (way,)
        return tuple(_on(part, given) for part in parts)

    def seconds(label: str, count: int) -> float:
        runs = running(label, count)
        for each in reversed(runs):
            each(0)  # results and copies that are held from call to call are made here
        return race(*runs)

    paces = _each(ways, lambda label: _pace(case, effort, lambda count: seconds(label, count)))
    close = [label for label, pace in paces.items() if pace <= _CLOSE * min(paces.values())]
    counts = {label: _affordable(case, effort, paces[label]) for label in close}
    if len(close) > 1:
        tried = {label: max(1, min(counts[label], int(min(_RACE, effort.slow) / paces[label]))) for label in close}
        paces = _each(close, lambda label: seconds(label, tried[label]) / tried[label])
    best = min(paces, key=lambda label: paces[label]) if len(close) > 1 else close[0]
    run, *before = running(best, counts[best])
    entry = FactorEntry(peer.name, best, run, peer.give, case, count=counts[best])
    entry.facts = dict(getattr(peer, "facts", {}))
    if before:
        entry.restore = before[0]
        entry.facts |= {"restored": True}  # the copy is no part of its time
    return entry


def _on(call: Callable[..., Any], given: list[tuple[Any, ...]]) -> Callable[[int], Any]:
    return lambda index: call(*given[index])


def _each(labels: Any, measure: Callable[[str], float]) -> dict[str, float]:
    """Measure each spelling; failing ones are left out, and if all fail the last error is raised."""
    found, failure = {}, None
    for label in labels:
        try:
            found[label] = measure(label)
        except Exception as error:  # a routine that this version of a library lacks, or that refuses these operands
            failure = error
    if failure is not None and not found:
        raise failure
    return found


def _pace(case: Case, effort: Effort, seconds: Callable[[int], float]) -> float:
    """Seconds per matrix: of few matrices, then of more, until a call takes long enough to tell."""
    most = case.K if case.form == RAGGED else min(case.K, effort.most)
    count = case.K if case.form == RAGGED else min(effort.first, most)
    taken = seconds(count)
    taken = min(taken, seconds(count)) if taken >= _TELLS else taken  # a first call may load a library
    while count < most and taken < _TELLS:
        count = min(most, count * _MORE)
        taken = seconds(count)
    return taken / count


def _affordable(case: Case, effort: Effort, pace: float) -> int:
    """How many matrices a call is measured on."""
    if case.form == RAGGED:
        return case.K
    most = min(case.K, effort.most)
    if pace * most <= effort.slow:
        return most
    least = min(most, -(-_LEAST * case.K // case.bytes))
    count = max(least, int(effort.slow / pace))
    return count if pace * count <= effort.longest else max(1, int(effort.slow / pace))
