"""Fast paths as data: what the native launcher needs to know of a plan to run it without Python code.

A plan's fast path is a Python function. Where it comes down to addresses, new arrays and one launch, a `Direct` goes
with it, from which the launcher makes its own. The function stays the one that answers everything else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ..arrays import readers
from ..arrays.types import Array, Kind, Maker, Matrices
from ..backends.base import Launch
from ..native import Module

_MOST_OPERANDS, _MOST_RESULTS = 12, 4  # of a kernel, as `launches.hpp` and `run.hpp` have room for them
FIXED = -2  # in an order: an address of the plan's own
Path = TypeVar("Path", bound=Callable[..., Matrices])
Reach = tuple[int, int]  # bytes before and behind an address


class Direct(NamedTuple):
    """One launch: where its operands come from, and what is allocated."""

    kind: Kind
    launch: Launch
    device: tuple[str, int]
    order: tuple[int, ...]  # the kernel's operands: 0: A, 1: B, 2 and more: results, -1: null, FIXED: one of `fixed`
    makers: tuple[Maker, ...]  # of the results; the first is not called where `out` is given
    reaches: Sequence[Reach] = ()  # of A, B and `out`, where that is given
    parts: int = 0  # results in a list; 0: one, by itself
    like: int = 0  # the operand that results lie beside: 0: A, 1: B
    in_place: int = 0  # the operand in whose place the result may be: 1: A, 2: B, 0: none
    scalars: tuple[float, ...] = ()
    general: Callable[..., Matrices] | None = None  # answers what one launch does not; the path itself if left out
    written: Callable[[tuple[Array, ...]], None] | None = None  # is told that `out` was overwritten
    fixed: tuple[int, ...] = ()  # addresses of the plan's own arrays, which lead the operands


def described(path: Path, direct: Direct) -> Path:
    """The path, with its description."""
    path.__dict__["direct"] = direct
    return path


def with_own(path: Path, own: Callable[..., Matrices]) -> Path:
    """The path, with a library's own function of the operands alone, which answers calls without factors and `out`."""
    path.__dict__["own"] = own
    return path


def own_of(path: Callable[..., Matrices]) -> Callable[..., Matrices] | None:
    """Return the library's own function that `with_own` attached to the path; None if there is none."""
    found: Callable[..., Matrices] | None = getattr(path, "__dict__", {}).get("own")
    return found


def description(path: Callable[..., Matrices]) -> Direct | None:
    """What a path comes down to, if it is known."""
    found: Direct | None = getattr(path, "__dict__", {}).get("direct")
    return found


def native(module: Module, path: Callable[..., Matrices]) -> object:
    """What the launcher is to keep for a path: its own run, or the path where it has none."""
    direct = description(path)
    found = None if direct is None or direct.fixed else told(direct, direct.general or path)
    own = own_of(path)
    if found is None and own is not None:
        return own, path
    return path if found is None else module.make_run(found)


def told(direct: Direct, general: Callable[..., Matrices]) -> tuple[Any, ...] | None:
    """A description as the launcher reads it (`native/run.hpp`); None where it has no room for the launch."""
    number, entry = readers.number_of(direct.kind), getattr(direct.launch, "entry", None)
    if number is None or entry is None:
        return None
    if len(direct.order) > _MOST_OPERANDS or len(direct.makers) > _MOST_RESULTS:
        return None
    if direct.fixed:
        words = struct.pack(f"={len(direct.fixed)}Q", *direct.fixed)
        entry = entry._replace(arguments=words + entry.arguments[len(words) :])
    placed = len(direct.reaches) == 3
    reaches = tuple(end for reach in direct.reaches for end in reach)
    return (
        number, direct.order, tuple(map(tuple, direct.makers)), placed, direct.parts,
        direct.like, direct.in_place, reaches, tuple(entry), direct.kind.stream_source(direct.device), direct.scalars,
        general, direct.launch, direct.written if placed else None,
    )  # fmt: skip
