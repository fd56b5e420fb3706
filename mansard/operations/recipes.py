"""Plans in other processes: what a plan was made with, free of arrays and addresses, so that it can be made again.

A plan depends on how its operands lie in memory and not on what they hold. `describe` writes that down; `allocate`
returns new arrays, of any content, that planning cannot tell from the first ones: the same library, shapes, strides,
dtype and device, the same alignment, and memory in common where operands had memory in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import kinds as arrays
from ..arrays.kinds import View
from ..arrays.types import Array, Matrices
from ..plan import pin
from ..plan.plan import Plan
from ..plan.problem import Options
from . import stacks

_ALIGNMENT = 64  # bytes; where a block of memory begins modulo this is the same in every process


class Block(NamedTuple):
    """Memory that arrays share."""

    size: int  # bytes
    begins: int  # address modulo _ALIGNMENT


class Alike(NamedTuple):
    """One array: where its first entry is, and everything else that `View` says, without its address."""

    block: int
    offset: int  # bytes from the block's beginning to the first entry
    view: View  # whose address is 0


@dataclass(frozen=True)
class Description:
    """Operands by name: the number of an array in `arrays`, a list of numbers, or None. A flag in a list is itself."""

    package: str  # the array library's, as it is imported
    blocks: tuple[Block, ...]
    arrays: tuple[Alike, ...]
    operands: dict[str, int | list[int] | None]

    def allocate(self) -> dict[str, Array]:
        """Arrays like those that were described. NumPy's take no memory until something is written to them."""
        kind, device = arrays.imported(self.package), self.arrays[0].view.device
        memory = [kind.memory(block.size + 2 * _ALIGNMENT, device) for block in self.blocks]
        begins = [block.begins - kind.address(one) for block, one in zip(self.blocks, memory, strict=True)]
        made = [
            kind.over(memory[one.block], begins[one.block] % _ALIGNMENT + one.offset, one.view) for one in self.arrays
        ]

        def array(i: int) -> Array:
            return i if isinstance(i, bool) else made[i]

        return {
            name: list(map(array, given)) if isinstance(given, list) else None if given is None else made[given]
            for name, given in self.operands.items()
        }


def describe(**operands: Matrices) -> Description:
    """Describe arrays and lists of arrays as planning sees them; an array that is given twice is one array."""
    kind = stacks.common_kind([(name, _arrays(one)) for name, one in operands.items()])
    numbers: dict[int, int] = {}
    views: list[View] = []

    def number(array: Array, argument: str) -> int:
        if isinstance(array, bool):
            return array
        if id(array) not in numbers:
            numbers[id(array)] = len(views)
            views.append(kind.view(array, argument))
        return numbers[id(array)]

    given: dict[str, int | list[int] | None] = {}
    for name, one in operands.items():
        if stacks.is_list(one):
            given[name] = [number(array, f"{name}[{i}]") for i, array in enumerate(one)]
        else:
            given[name] = None if one is None else number(one, name)
    return Description(kind.package, *_blocks(views), given)


def _arrays(operand: Matrices) -> Matrices:
    """An operand without the flags of a list, as `cho_solve` takes one beside its factors."""
    return [one for one in operand if not isinstance(one, bool)] if stacks.is_list(operand) else operand


def _blocks(views: list[View]) -> tuple[tuple[Block, ...], tuple[Alike, ...]]:
    """Blocks of memory such that arrays whose bytes overlap, or may, are in the same one."""
    ends = [arrays.extent(view, np.dtype(view.dtype).itemsize) for view in views]
    spans: list[list[int]] = []
    places: dict[int, int] = {}
    for i in sorted(range(len(views)), key=lambda i: ends[i]):
        low, high = ends[i]
        if not spans or low >= spans[-1][1]:
            spans.append([low, high])
        spans[-1][1] = max(spans[-1][1], high)
        places[i] = len(spans) - 1
    blocks = tuple(Block(high - low, low % _ALIGNMENT) for low, high in spans)
    return blocks, tuple(
        Alike(places[i], view.address - spans[places[i]][0], view._replace(address=0)) for i, view in enumerate(views)
    )


def realigned(array: Array) -> Array:
    """An unpickled array, or a copy: those of NumPy that lie in somebody else's buffers begin anywhere, and kernels
    need entries at multiples of their size."""
    odd = isinstance(array, np.ndarray) and array.ctypes.data % array.itemsize
    return array.copy() if odd else array


# ---- plans ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """Ingredients of a plan, enough to make it again: the function, described operands, options and pins."""

    make: Callable[..., Plan]
    described: Description
    options: Options
    pins: Options

    def __call__(self) -> Plan:
        """Make the plan again, by what is known in this process: its device, its records, its pins are the plan's."""
        with pin.pin(**self.pins):
            return self.make(**self.described.allocate(), **self.options)


def repeatable(plan: Plan, make: Callable[..., Plan], operands: dict[str, Array], **options: Any) -> Plan:
    """The plan, which can be pickled from now on: `make` with the same operands and options returned it."""
    plan.recipe = Recipe(make, describe(**operands), options, dict(pin.pins()))
    return plan
