"""Calls that are more than one launch: the first one checks its arguments, and leaves a function for later ones.

Arrays of the same signatures (shape, strides, dtype, alignment, gradient state) need no second look, so that a later
call costs its launches and one question to the cache of plans.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ..arrays import kinds
from ..arrays.types import Array, Kind
from ..plan import pin
from .plans import PLANS

_get, _pinned, _known_kind = PLANS.get, pin.pins, kinds.known_kind
Run = Callable[..., Array]  # (*arrays, out, ...) -> the results; None: these operands need a closer look


def recall(what: Hashable, given: tuple[Array, ...], out: Array) -> Run | None:
    """What an earlier call left for arrays like these; None: look at them closely."""
    key = _key(what, given, out)
    return None if key is None or _pinned() else _get(key)


def keep(what: Hashable, given: tuple[Array, ...], out: Array, run: Run | None) -> None:
    """Leave `run` for later calls on arrays like these; None, and what was made under pins: nothing."""
    key = None if run is None or _pinned() else _key(what, given, out)
    if run is not None and key is not None:
        PLANS.keep(key, run if out is None else _told(_known_kind(given[0]), run, len(given)))


def _key(what: Hashable, given: tuple[Array, ...], out: Array) -> Hashable:
    """None where the operands are no arrays of one known type."""
    first = type(given[0])
    kind = _known_kind(given[0])
    if kind is None or not (out is None or type(out) is first):
        return None
    signature = kind.signature
    key: list[object] = [what, kind]
    for one in given:
        if type(one) is not first:
            return None
        key.append(signature(one))
    if out is not None:
        key.append(signature(out))
    return tuple(key)


def _told(kind: Kind | None, run: Run, place: int) -> Run:
    """`run`, followed by telling the array library that `out`, its argument number `place`, was overwritten."""
    written = None if kind is None else kind.written
    if written is None:
        return run

    def run_and_tell(*given: Array) -> Array:
        result = run(*given)
        if result is not None:
            written((given[place],))
        return result

    return run_and_tell
