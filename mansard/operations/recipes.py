"""Plans in other processes: what a plan was made with, free of arrays and addresses, so that it can be made again.

A plan depends on how its operands lie in memory and not on what they hold. `describe` writes that down; `allocate`
returns new arrays, of any content, that planning cannot tell from the first ones: the same library, shapes, strides,
dtype and device, the same alignment, and memory in common where operands had memory in common.
"""

from __future__ import annotations

import sys
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

    library: str  # "NumPy", "CuPy" or "PyTorch"
    blocks: tuple[Block, ...]
    arrays: tuple[Alike, ...]
    operands: dict[str, int | list[int] | None]

    def allocate(self) -> dict[str, Array]:
        """Arrays like those that were described. NumPy's take no memory until something is written to them."""
        device = self.arrays[0].view.device
        memory = [_ALLOCATE[self.library](block, device) for block in self.blocks]
        made = [_OVER[self.library](*memory[one.block], one.offset, one.view) for one in self.arrays]

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
    return Description(kind.name, *_blocks(views), given)


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


# ---- array libraries --------------------------------------------------------------------------------------

Memory = tuple[Array, int]  # bytes as an array, and where among them the block begins


def _begin(address: int, block: Block) -> int:
    return (block.begins - address) % _ALIGNMENT


def _numpy_memory(block: Block, device: tuple[str, int]) -> Memory:
    memory = np.empty(block.size + _ALIGNMENT, np.uint8)
    return memory, _begin(memory.ctypes.data, block)


def _numpy_over(memory: Array, begin: int, offset: int, view: View) -> Array:
    dtype = np.dtype(view.dtype)
    strides = tuple(stride * dtype.itemsize for stride in view.strides)
    made: Any = np.ndarray(view.shape, dtype, memory, begin + offset, strides)
    made.flags.writeable = not view.readonly
    return made


def _cupy_memory(block: Block, device: tuple[str, int]) -> Memory:
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(device[1]):
        memory = cupy.empty(block.size + _ALIGNMENT, np.uint8)
    return memory, _begin(memory.data.ptr, block)


def _cupy_over(memory: Array, begin: int, offset: int, view: View) -> Array:
    dtype = np.dtype(view.dtype)
    strides = tuple(stride * dtype.itemsize for stride in view.strides)
    return sys.modules["cupy"].ndarray(view.shape, dtype, memory.data + begin + offset, strides)


def _torch_memory(block: Block, device: tuple[str, int]) -> Memory:
    torch = sys.modules["torch"]
    where = device[0] if device[0] == "cpu" else f"{device[0]}:{device[1]}"
    memory = torch.empty(block.size + 2 * _ALIGNMENT, dtype=torch.uint8, device=where)
    return memory, _begin(memory.data_ptr(), block)


def _torch_over(memory: Array, begin: int, offset: int, view: View) -> Array:
    dtype = getattr(sys.modules["torch"], view.dtype)
    entries = memory[begin : begin + (len(memory) - begin) // dtype.itemsize * dtype.itemsize].view(dtype)
    made = entries.as_strided(view.shape, view.strides, entries.storage_offset() + offset // dtype.itemsize)
    return made.conj() if view.conjugated else made


_ALLOCATE = {"NumPy": _numpy_memory, "CuPy": _cupy_memory, "PyTorch": _torch_memory}
_OVER = {"NumPy": _numpy_over, "CuPy": _cupy_over, "PyTorch": _torch_over}
_MODULES = {"NumPy": "numpy", "CuPy": "cupy", "PyTorch": "torch"}


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
        __import__(_MODULES[self.described.library])
        with pin.pin(**self.pins):
            return self.make(**self.described.allocate(), **self.options)


def repeatable(plan: Plan, make: Callable[..., Plan], operands: dict[str, Array], **options: Any) -> Plan:
    """The plan, which can be pickled from now on: `make` with the same operands and options returned it."""
    plan.recipe = Recipe(make, describe(**operands), options, dict(pin.pins()))
    return plan
