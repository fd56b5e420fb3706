"""The one cache of plans: fast paths of all operations by the signatures of their arrays.

Plans that keep a stored matrix alive are in a part of it that the matrix owns, and are dropped with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any
from weakref import ref

from ..plan import pin

MOST = 4096  # plans; a program that makes more of them begins again with none
MOST_OWNED = 256  # plans of one owner


class Plans:
    """Fast paths by operation, array library, signatures of the arrays, and options.

    Under pins nothing is remembered, and what was remembered does not count: a pin lasts as long as its block.
    """

    def __init__(self, most: int = MOST) -> None:
        self._runs: dict[Hashable, Any] = {}
        self._most = most
        self._owned: dict[int, ref[Plans]] = {}  # parts that are forgotten with this one
        self.get = self._runs.get  # the dictionary's own method: every call of every operation looks here

    def keep(self, key: Hashable, run: Any) -> None:
        """Remember the fast path of a key, unless parameters are pinned."""
        if pin.pins():
            return
        if len(self._runs) >= self._most:
            self._runs.clear()
        self._runs[key] = run

    def made(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the fast path of a key; make and remember it if there is none."""
        run = None if pin.pins() else self.get(key)
        if run is None:
            run = make()
            self.keep(key, run)
        return run

    def owned(self, most: int = MOST_OWNED) -> Plans:
        """A part of the cache that lives as long as its owner, which the plans in it hold: a stored matrix."""
        made = Plans(most)
        key = id(made)
        self._owned[key] = ref(made, lambda _: self._owned.pop(key, None))
        return made

    def forget(self) -> None:
        """Plan every call anew: after tuning, or where tests replace what plans were made with."""
        for plans in (self, *self._parts()):
            plans._runs.clear()
        for forget in _FORGOTTEN_TOO:
            forget()

    def _parts(self) -> list[Plans]:
        return [plans for part in list(self._owned.values()) if (plans := part()) is not None]

    def __len__(self) -> int:
        return len(self._runs) + sum(map(len, self._parts()))


_FORGOTTEN_TOO: list[Callable[[], None]] = []


def forgets(function: Callable[[], None]) -> Callable[[], None]:
    """Register what else is forgotten with all plans: runs that live as long as a container or a matrix does."""
    _FORGOTTEN_TOO.append(function)
    return function


PLANS = Plans()
