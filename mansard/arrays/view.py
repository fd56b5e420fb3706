"""How kernels see an array: `View`, and what every kind of array needs to describe one."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple


class View(NamedTuple):
    """An array as kernels see it; strides count elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: tuple[str, int]  # ("cpu", 0) or ("cuda", ordinal)
    readonly: bool
    conjugated: bool = False  # the memory holds the conjugate (PyTorch's lazy conj())


def extent(view: View, itemsize: int) -> tuple[int, int]:
    """First byte and one past the last byte that the view can touch."""
    if 0 in view.shape:
        return view.address, view.address
    low = high = 0
    for size, stride in zip(view.shape, view.strides, strict=True):
        reach = (size - 1) * stride
        low, high = low + min(0, reach), high + max(0, reach)
    return view.address + low * itemsize, view.address + (high + 1) * itemsize


def reach(view: View, itemsize: int) -> tuple[int, int]:
    """`extent` relative to the address: where arrays that lie like this one begin and end, wherever they are."""
    low, high = extent(view, itemsize)
    return low - view.address, high - view.address


@lru_cache(maxsize=1024)
def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of an array without gaps whose last index is fastest."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def no_stream() -> int:
    """The stream of a CPU array: none. Whoever asks for it asks no CUDA library."""
    return 0
