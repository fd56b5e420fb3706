"""The path of every later call of a factorization: by the signatures of its arrays, without questions."""

from __future__ import annotations

from collections.abc import Hashable

from ...arrays import kinds as arrays
from ...arrays.types import Array, Kind
from ...plan import pin
from ..direct import described, description
from ..launcher import LAUNCHER, Answers
from ..plans import PLANS
from .kernel import Quick

_get = PLANS.get


def quick(
    task: tuple[object, ...], backend: str | None, A: Array, B: Array = None, out: Array = None
) -> list[Array] | None:
    """The parts, if a kernel has answered a call with arrays like these before; otherwise whoever asks has to look at
    them closely. `out` is for the first part."""
    natively = LAUNCHER.quick
    if natively is not None:
        return natively(task, backend, A, B, out)  # type: ignore[no-any-return]
    LAUNCHER.counted()
    return _quick(task, backend, A, B, out)


def _quick(task: tuple[object, ...], backend: str | None, A: Array, B: Array, out: Array) -> list[Array] | None:
    """`quick` without the native launcher."""
    run = _recall(task, backend, None, A, B, out)
    return None if run is None else run(A, B, out)


def _recall(task: tuple[object, ...], backend: str | None, _: None, A: Array, B: Array, out: Array) -> Quick | None:
    """The path that `quick` would take on these arrays; None: there is none."""
    kind = arrays.known_kind(A)
    if kind is None or (B is not None and type(B) is not type(A)) or (out is not None and type(out) is not type(A)):
        return None
    return None if pin.pins() else _get(quick_key(task, backend, kind, A, B, out))


LAUNCHER.serves("quick", Answers(_quick, _recall))


def keep_quick(key: Hashable, kind: Kind, run: Quick, placed: bool) -> None:
    """Remember a path of later calls, which tells the array library that `out` was overwritten."""
    PLANS.keep(key, told(kind, run) if placed and kind.written is not None else run)


def told(kind: Kind, run: Quick) -> Quick:
    """The path, followed by telling the array library that `out` was overwritten."""
    written, direct = kind.written, description(run)

    def run_and_tell(A: Array, B: Array, out: Array) -> list[Array] | None:
        parts = run(A, B, out)
        if parts is not None and written is not None:
            written((out,))
        return parts

    return run_and_tell if direct is None else described(run_and_tell, direct._replace(written=written))


def quick_key(task: tuple[object, ...], backend: str | None, kind: Kind, A: Array, B: Array, out: Array) -> Hashable:
    signature = kind.signature
    of_b, of_out = None if B is None else signature(B), None if out is None else signature(out)
    return ("quick", task, backend, kind, signature(A), of_b, of_out)
