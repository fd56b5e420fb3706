"""Contenders in one case: how they are called, and how a peer's fastest spelling is found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from . import clock as clocks
from .batched.operations import BATCHED
from .batched.peers import IN_PLACE
from .cases import Case
from .declared import contest as declared
from .declared.operations import DECLARED
from .peers import Peer, Product
from .random.operations import DRAWN

_SHARE, _CLOSE = 64, 3  # spellings race on this share of the rows first; those this close race again on all of them
_SLOW = 0.2  # seconds of a call above which a spelling runs once


class Entry:
    """A contender in one case: a name, how it spells the product, and a call on the case's operand pairs."""

    def __init__(
        self, name: str, spelling: str, run: Callable[[int], Any], give: Callable[[Any], Any], out: Any = None
    ) -> None:
        self.name, self.spelling, self.run, self._give = name, spelling, run, give
        self.out = out  # one of our arrays, where the first pair's product goes; None where it is made anew
        self.in_place = spelling.startswith(IN_PLACE)
        self.scale, self.note = 1.0, ""  # where a call does only a part of the case
        self.facts: dict[str, Any] = {}  # what its rows say besides
        # of a call that works in place: writes the operands of a pair again, which no clock sees
        self.restore: Callable[[int], Any] | None = None

    @property
    def again(self) -> Callable[[int], Any]:
        """The call with whatever must come before it, for loops and graphs, whose calls nothing can come between."""
        run, restore = self.run, self.restore
        return run if restore is None else lambda index: (restore(index), run(index))[1]

    def sampler(self, clock: Any) -> Callable[[], float]:
        """Takes a sample of a call on the first pair, what must come before it outside the clock."""
        before = clocks.nothing if self.restore is None else partial(self.restore, 0)
        return clocks.sampler(clock, partial(self.run, 0), before)

    def result(self) -> Any:
        """The product of the first pair, as one of our arrays; several where the operation has several."""
        result = self.run(0)
        if result is None:  # it is where it was asked for
            return self.out
        return tuple(map(self._give, result)) if isinstance(result, tuple) else self._give(result)


def enter(
    peer: Peer, case: Case, operands: list[tuple[Any, ...]], race: Callable[[Callable[[int], Any]], float]
) -> Entry:
    """The peer's entry with its fastest spelling; `race` times one call. Operands are A, B (None: A) and, where it is
    not made anew, the result."""

    def take(array: Any) -> Any:
        if array is None or isinstance(array, bool):
            return array
        if isinstance(array, tuple):
            return tuple(map(take, array))
        return peer.take_ragged(case, array) if case.operation == "ragged" else peer.take(array)

    taken = [tuple(map(take, each)) for each in operands]
    if case.operation in DECLARED:
        module = import_module(peer.library)
        taken = [(*declared.taken(peer.library, module, case, *each[:2]), *each[2:]) for each in taken]
    if case.operation in DRAWN:
        taken = [(*peer.converted(case, *each[:2]), *each[2:]) for each in taken]  # type: ignore[attr-defined]
    given = [(each[0], each[0] if each[1] is None else each[1], *each[2:]) for each in taken]

    def calling(product: Product) -> Callable[[int], Any]:
        return lambda index: product(*given[index])

    ways = {label: calling(product) for label, product in fastest(peer, case, given[0], race).items()}
    times = _race(ways, race) if len(ways) > 1 else {}
    ways = {label: run for label, run in ways.items() if label in times or len(ways) == 1}
    label = min(ways, key=lambda name: times.get(name, 0.0))
    return Entry(peer.name, label, ways[label], peer.give, operands[0][2] if len(operands[0]) > 2 else None)


def _race(
    ways: dict[str, Callable[[int], Any]], race: Callable[[Callable[[int], Any]], float]
) -> dict[str, float]:  # fmt: skip
    """The time of each way; those that fail are out, unless all do."""
    times, failure = {}, None
    for label, run in ways.items():
        try:
            times[label] = race(run)
            if times[label] < _SLOW:
                times[label] = min(times[label], race(run))
        except Exception as error:  # a routine that this version of a library lacks, or that refuses these operands
            failure = error
    if failure is not None and not times:
        raise failure
    return times


def fastest(
    peer: Peer, case: Case, operands: tuple[Any, ...], race: Callable[[Callable[[int], Any]], float]
) -> dict[str, Product]:
    """The peer's spellings that are worth a race. A sixty-fourth of the rows, or of the matrices, tells: there is one
    that takes 18 s for what another does in 5 ms (cuBLAS, complex128 1 x 1), and waiting for it tells nothing."""
    ways = peer.spellings(case)
    stack = case.operation in BATCHED and case.operation != "ragged" and case.K >= _SHARE**2
    if len(ways) == 1 or case.layout != "row" or not (stack or case.operation == "gram"):
        return ways
    few = [array[: -(-case.K // _SHARE)] for array in operands]

    def calling(product: Product) -> Callable[[int], Any]:
        return lambda index: product(*few)

    runs = {label: calling(product) for label, product in ways.items()}
    times = _race(runs, lambda run: (run(0), race(run))[1])
    return {label: ways[label] for label, seconds in times.items() if seconds <= _CLOSE * min(times.values())}
