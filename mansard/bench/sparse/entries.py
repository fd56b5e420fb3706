"""Contenders of sparse products and powers: what they are given, what they give, and the fastest of their spellings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..cases import Case
from ..entries import Entry
from ..peers import Peer
from ..rows import OURS
from .operations import csr_storage

Race = Callable[[Callable[[int], Any]], float]


class Way(NamedTuple):
    """A spelling, ready to run: a call without arguments, how its result becomes one of our arrays, and facts."""

    run: Callable[[], Any]
    give: Callable[[Any], Any]
    out: Any = None  # one of our arrays, where results go; None where they are made anew
    facts: dict[str, Any] = {}  # noqa: RUF012  never changed
    own_bits: bool = False  # whether results must equal those of repeated products, bit by bit


class Result(NamedTuple):
    """An array, and whether it must equal repeated products bit by bit."""

    array: Any
    own_bits: bool


class SparseEntry(Entry):
    """A contender that stores the matrix its own way."""

    def __init__(self, name: str, spelling: str, way: Way, case: Case, matrix: dict[str, Any]) -> None:
        super().__init__(name, spelling, lambda index: way.run(), way.give, way.out)
        self.way = way
        self.facts = {"storage": csr_storage(case.dtype), **matrix, **way.facts}

    def result(self) -> Result:
        made = self.way.run()
        return Result(self.way.give(self.out if made is None else made), self.way.own_bits)


def enter(peer: Peer, case: Case, pairs: list[tuple[Any, ...]], race: Race) -> SparseEntry:
    """The peer's entry with its fastest spelling; `race` times one call."""
    given, x = pairs[0]
    ways: dict[str, Way] = peer.ways(case, given, x)  # type: ignore[attr-defined]
    if len(ways) == 1:
        ((label, way),) = ways.items()
        return SparseEntry(peer.name, label, way, case, given.facts)
    times: dict[str, float] = {}
    failure: Exception | None = None
    for label, way in ways.items():
        try:
            way.run()
            times[label] = min(race(lambda index, way=way: way.run()) for _ in range(2))  # type: ignore[misc]
        except Exception as error:  # a routine that this version of a library lacks
            failure = error
    if not times:
        raise failure or ValueError("no way to write this")
    label = min(times, key=lambda name: times[name])
    return SparseEntry(peer.name, label, ways[label], case, given.facts)


def is_ours(contender: str) -> bool:
    """Mansard, or one of its other ways to the same result."""
    return contender == OURS or contender.startswith(f"{OURS} ")
