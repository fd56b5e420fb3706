"""Arrays whose entries are more than 2^31 elements apart, in memory that costs nothing where it is not touched."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gemm_cases
import numpy as np
from gemm_cases import Stack

FAR = 2**31 + 2  # elements
_MAP_NORESERVE = 0x4000  # Linux; Python's mmap does not name it


def holes(elements: int, dtype: str = "float64") -> Any:
    """So many zeros, of which only pages that are touched take memory. As many lie before them that a kernel which cuts
    its offsets to 32 bits gives a wrong answer, not a crash."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return np.frombuffer(mmap.mmap(-1, np.dtype(dtype).itemsize * (FAR + elements), flags=flags), dtype)[FAR:]


def far_array(values: Any, strides: tuple[int, ...]) -> Any:
    """A copy of `values` whose axes have these strides, in elements."""
    values = np.asarray(values)
    reach = sum((size - 1) * stride for size, stride in zip(values.shape, strides, strict=True)) + 1
    memory = holes(reach, values.dtype.name)
    view = np.lib.stride_tricks.as_strided(memory, values.shape, tuple(values.itemsize * one for one in strides))
    view[...] = values
    return view


def far_stacks(stack_of: Callable[..., Stack] = gemm_cases.stack_of) -> Callable[..., Stack]:
    """Like `stack_of`, but strided stacks have their matrices FAR elements apart."""

    def made(problem: Any, side: str, xp: Any, values: Any) -> Stack:
        near = stack_of(problem, side, xp, values)
        if getattr(problem, f"stack_{side}") != "strided":
            return near
        view = far_array(near.view, (FAR, *near.strides[1:]))
        return replace(near, view=view, buffer=view, strides=(FAR, *near.strides[1:]))

    return made
