"""Stacks of matrices in memory, for measuring them where problems say they lie."""

from __future__ import annotations

from typing import Any

import numpy as np


def stacked(xp: Any, values: Any, row: int, column: int, aligned: bool, packed: bool) -> Any:
    """A copy of (batch, rows, columns) as a view with these strides, in elements; what lies between is NaN. Matrices
    that are not packed begin 16-byte units apart; an unaligned stack begins one real number off a boundary."""
    batch, rows, columns = values.shape
    item, real = values.dtype.itemsize, values.real.dtype
    size = (rows - 1) * row + (columns - 1) * column + 1
    matrix = rows * columns if packed else (size // (16 // item) + 1) * (16 // item)
    # CuPy itself needs whole elements
    shift = 0 if aligned else 1 if xp is np else item // real.itemsize
    words = xp.full(((batch - 1) * matrix + size) * (item // real.itemsize) + shift, np.nan, real)
    strides = (matrix * item, row * item, column * item)
    view = xp.lib.stride_tricks.as_strided(words[shift:].view(values.dtype), values.shape, strides)
    view[...] = values
    return view
