"""Cases of drawn problems: the first ones of a seed whose kind is asked for, or a single one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..cases import Case, Size
from . import sparse
from .operations import NAMES, PREFIX, Source, name_of, problem
from .problem import Drawn

_HOT = 4 << 20  # bytes up to which calls are repeated in a loop, on operands that caches may hold
_FAR = 1_000_000  # numbers that are looked at, at most


@dataclass(frozen=True)
class Asked:
    """Problems that a run measures."""

    seed: int
    memory: int  # bytes of operands and result together, at most
    count: int
    operations: tuple[str, ...] = NAMES
    only: tuple[int, ...] = ()  # numbers of single problems

    @property
    def name(self) -> str:
        """Name of the set, which an interrupted run is recognized by."""
        parts = [f"seed {self.seed}", f"{self.memory >> 20} MiB" if self.memory >> 20 else f"{self.memory} bytes"]
        if self.only:
            return ", ".join([*parts, f"only {' '.join(map(str, self.only))}"])
        parts += [f"{self.count} cases"]
        return ", ".join([*parts, *([" ".join(self.operations)] if self.operations != NAMES else [])])

    def numbers(self) -> Iterator[int]:
        """Numbers of the problems: each is what it is whichever others are asked for."""
        if self.only:
            yield from self.only
            return
        found = 0
        for number in range(1, _FAR):
            if found == self.count:
                return
            if name_of(self.seed, number) in self.operations:
                found += 1
                yield number


def cases(asked: Asked) -> Callable[[Size], list[Case]]:
    """The problems as a set of the benchmark."""

    def chosen(size: Size) -> list[Case]:
        return [case_of(asked.name, (asked.seed, number, asked.memory)) for number in asked.numbers()]

    chosen.__doc__ = f"Random problems: {asked.name}."
    return chosen


def case_of(set: str, source: Source) -> Case:
    found = problem(*source)
    if not isinstance(found, Drawn):
        name = name_of(*source[:2])
        return Case(set, operation=sparse.OPERATIONS[name], drawn=source, **found)
    sizes = [max(map(max, (one.shape[-2:] for one in found.operands)), default=int(found.sizes.get("most", 1)))]
    hot = found.bytes <= _HOT and found.work.bytes <= _HOT
    how: Any = {"mode": "eager", "temperature": "hot"} if hot else {}
    count = int(found.sizes.get("batch", 1))
    return Case(set, found.dtype, sizes[0], 1, count, operation=PREFIX + found.operation, drawn=source, **how)
