"""Whether `info` of many matrices has an entry that is not zero: one launch, whose answer lies in the host's memory."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...arrays import kinds as arrays
from ...arrays import readers
from ...arrays.types import Array, Kind
from ...backends import mailbox
from ...backends.cuda_driver import driver
from ...backends.select import select
from ...kernels.factor import systems
from ...plan import dispatch, pin
from .. import run as call
from ..launcher import LAUNCHER
from ..plans import PLANS

_MOST = 1 << 16  # entries that one block of threads reads while an array library's reduction would be launched twice


def has_nonzero(info: Array) -> bool | None:
    """The answer, for contiguous arrays on GPUs; None: the array library is to be asked. Waits for the device."""
    kind = arrays.known_kind(info)
    if kind is None or pin.pins():
        return None
    check = PLANS.made(("info", kind, kind.signature(info)), lambda: _planned(kind, info))
    found: bool | None = check(info)
    return found


_FETCHED: set[tuple[str, int]] = set()  # libraries and devices that the launcher fetches from


def lets_fetch(info: Array) -> bool:
    """Tell the launcher how `info` of this library is fetched from its GPU; False where nothing is new to it."""
    kind, module = arrays.known_kind(info), LAUNCHER.module
    number = None if kind is None else readers.number_of(kind)
    if kind is None or module is None or number is None:
        return False
    name, ordinal = kind.view(info, "info").device
    if name != "cuda" or (kind.package, ordinal) in _FETCHED:
        return False
    _FETCHED.add((kind.package, ordinal))
    module.set_fetch(number, ordinal, kind.stream_source((name, ordinal)), driver().fetching(ordinal))
    return True


def _planned(kind: Kind, info: Array) -> Callable[[Array], bool | None]:
    view = kind.view(info, "info")
    count, dense = prod(view.shape), tuple(prod(view.shape[i + 1 :]) for i in range(len(view.shape)))
    if view.device[0] != "cuda" or view.dtype != "int32" or view.strides != dense or not 0 < count <= _MOST:
        return lambda info: None
    return checked(kind, view.device, count)


def checked(kind: Kind, device: tuple[str, int], count: int, name: str | None = None) -> Callable[[Array], bool | None]:
    """The check of so many integers on a device, by the backend of this name."""
    backend = select(device, name)
    problem = systems.spec.problem("float32", 1, 1, count, want="check")
    choice = dispatch.choose(problem, backend.device)
    launch, _, _ = call.prepare(systems.emit, problem, backend, (0,) * 9, choice=choice)
    assert launch is not None
    address, stream = kind.address, kind.stream_of(device)

    def check(info: Array) -> bool | None:
        box, where = mailbox.take(backend), stream()
        launch((0, address(info), 0, 0, 0, box.address), (), where)
        box.posted(where)
        found = box.read() != 0
        mailbox.give(backend, box)
        return found

    return check
