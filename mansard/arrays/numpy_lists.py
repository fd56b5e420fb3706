"""Lists of NumPy arrays, described and copied by a compiled loop (`include/mansard/cpu/lists.hpp`).

Asking 1000 arrays for their shapes and dtypes takes the interpreter 300 us, and the loop 10. It reads the pointers that
a tuple consists of, and the fields of every array behind its head, as NumPy's binary interface has them. Both are
checked once per process; where they are not as expected, or nothing is compiled, `describe` gives None.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from ..backends import lists
from ..backends.base import Launch
from .numpy import _address

Part = Literal["whole", "lower", "upper", "unit_lower", "unit_upper"]  # in the order of C++'s ListPart
_PARTS = {part: number for number, part in enumerate(get_args(Part))}
_DESCRIBE, _GATHER, _SCATTER = range(3)
_ROWS_ADJACENT, _ALIGNED, _WRITEABLE = 0x0001, 0x0100, 0x0400  # of an array's flags
_ITEMS = {np.dtype(name): np.dtype(name).itemsize for name in ("float32", "float64", "complex64", "complex128")}
_HEAD, _POINTERS_OF_TUPLE = object.__basicsize__, tuple.__basicsize__


class Listed(NamedTuple):
    """Arrays of one dtype, all vectors or all matrices. `tables`: rows, columns, addresses in units of an item."""

    arrays: tuple[Any, ...]  # which keeps them alive
    dtype: Any
    dimensions: int
    tables: Any
    address: int  # of the tables
    key: tuple[object, ...]  # equal for lists of the same dtype, dimensions and shapes
    is_plain: bool  # rows are adjacent and aligned: kernels read every array where it is
    is_writeable: bool


def describe(arrays: Sequence[Any]) -> Listed | None:
    """The tables of a list of NumPy arrays. None: it is empty or holds other arrays, of other or of different dtypes or
    dimensions, or there is no compiled loop."""
    loop = _loop()
    return None if loop is None else _described(loop, tuple(arrays))


def gather(listed: Listed, buffer: Any, places: Any, part: Part = "whole") -> None:
    """Copy all matrices to a buffer, matrix i from entry places[i] on; zeros outside of `part`, ones on the diagonal of
    a unit triangle."""
    _copy(_GATHER, listed, buffer, places, part)


def scatter(listed: Listed, buffer: Any, places: Any, part: Part = "whole") -> None:
    """Copy one part of all matrices from a buffer to the arrays."""
    _copy(_SCATTER, listed, buffer, places, part)


def _described(loop: Launch, arrays: tuple[Any, ...]) -> Listed | None:
    first = arrays[0] if arrays else None
    if type(first) is not np.ndarray:
        return None
    dtype, dimensions, count = first.dtype, first.ndim, len(arrays)
    item = _ITEMS.get(dtype)
    if item is None or not 1 <= dimensions <= 2:
        return None
    words = np.empty(3 * count + 2, np.int64)  # tables and report
    at = _address(words)
    loop(
        (id(arrays) + _POINTERS_OF_TUPLE, id(np.ndarray), id(dtype), at, 0, at + 24 * count, 0, 0, _HEAD, dimensions,
         item, count, _DESCRIBE, 0), (), 0,
    )  # fmt: skip
    alike, flags = words[-2:].tolist()
    if alike != count or not flags & _ALIGNED:
        return None
    key = dtype.char, dimensions, words[: 2 * count].tobytes()
    tables = words[:-2].reshape(3, count)
    return Listed(arrays, dtype, dimensions, tables, at, key, flags & _ROWS_ADJACENT != 0, flags & _WRITEABLE != 0)


def _copy(task: int, listed: Listed, buffer: Any, places: Any, part: Part) -> None:
    loop, (arrays, dtype, dimensions, *_) = _loop(), listed
    assert loop is not None
    pointers = (
        id(arrays) + _POINTERS_OF_TUPLE, id(np.ndarray), id(dtype), 0, _address(places), 0, _address(buffer),
        _address(_one(dtype)),
    )  # fmt: skip
    loop((*pointers, _HEAD, dimensions, _ITEMS[dtype], len(arrays), task, _PARTS[part]), (), 0)


@lru_cache(maxsize=4)
def _one(dtype: Any) -> Any:
    return np.ones(1, dtype)


@lru_cache(maxsize=1)
def _loop() -> Launch | None:
    """The compiled loop; None where it cannot be had, or would not find what this interpreter and this NumPy have."""
    loop = lists.loop() if sys.implementation.name == "cpython" else None
    return loop if loop is not None and _finds_arrays(loop) else None


def _finds_arrays(loop: Launch) -> bool:
    """Whether the loop sees known arrays as Python does."""
    whole = np.zeros((4, 6))
    arrays = (whole, whole[1:3, ::2], whole.T, np.ones((1, 2)))
    found = _described(loop, arrays)
    wanted = [[*one.shape, one.__array_interface__["data"][0] // 8] for one in arrays]
    plain = _described(loop, arrays[::3])
    return (
        found is not None and found.tables.T.tolist() == wanted and not found.is_plain
        and plain is not None and plain.is_plain and plain.is_writeable
        and _described(loop, (whole, np.ones(3, np.float32))) is None
    )  # fmt: skip
