"""NumPy arrays, and CuPy arrays, which have the same attributes on a GPU."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.cuda_driver import LostLibrary
from .view import View, no_stream


def _interface_address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _address_reader() -> Callable[[Any], int]:
    """How the address of a NumPy array is read. NumPy's binary interface has it behind the object's head, which takes
    a fifth of the time of asking for the array's interface. Where it is not there, the interface is asked. Only
    numpy.ndarray and its subclasses, which extend the same structure, may be read this way: `arrays.kind_of` gives
    nothing else to NumpyKind."""
    head, word = object.__basicsize__, ctypes.c_size_t.from_address

    def read(array: Any) -> int:
        return word(id(array) + head).value

    several = (np.zeros(3), np.zeros((2, 3), np.float32)[1:], np.zeros(4, np.complex128).view(np.recarray))
    straight = sys.implementation.name == "cpython" and all(read(one) == _interface_address(one) for one in several)
    return read if straight else _interface_address


_address = _address_reader()


class NumpyKind:
    """numpy.ndarray."""

    name = "NumPy"
    immutable = False
    written: Callable[[Any], None] | None = None  # tells the library that arrays were overwritten: it need not know

    def signature(self, array: Any) -> tuple[Any, ...]:
        """Cheap, hashable, and different whenever planning could differ; the address enters by its alignment."""
        dtype = array.dtype
        return (
            array.shape, array.strides, dtype.char, dtype.byteorder, _address(array) & 15, not array.flags.writeable,
        )  # fmt: skip

    def view(self, array: Any, argument: str) -> View:
        """Describe an array; what no kernel could read as it is raises an error that names the argument."""
        data, readonly = array.__array_interface__["data"]
        if array.dtype.kind not in "biufc":
            raise TypeError(f"{argument} has dtype {array.dtype}, whose entries are no plain numbers: convert it first")
        if not array.dtype.isnative:
            raise TypeError(
                f"{argument} has dtype {array.dtype.str}, a foreign byte order: "
                f"pass {argument}.astype({array.dtype.name!r})"
            )
        strides = whole_strides(array, argument, "numpy")
        return View(data, array.shape, strides, array.dtype.name, ("cpu", 0), readonly)

    def address(self, array: Any) -> int:
        return _address(array)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return np.empty(shape, dtype)

    def plain(self, array: Any) -> Any:
        """A contiguous array that holds its values literally."""
        return np.ascontiguousarray(array)

    def stream_of(self, device: tuple[str, int]) -> Callable[[], int]:
        """A function that names the caller's current stream on the device. Plans ask for it once: what a CPU array
        gets calls no CUDA library."""
        return no_stream

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        return np.matmul(a, b, out=out)

    def conj(self, array: Any) -> Any:
        return array.conj()


class CupyKind(NumpyKind):
    """cupy.ndarray, on the device where it lives and CuPy's current stream."""

    name = "CuPy"

    def __init__(self) -> None:
        self._cupy: Any = sys.modules["cupy"]
        self._several = self._cupy.cuda.runtime.getDeviceCount() > 1
        os.register_at_fork(after_in_child=self._lose)

    def _lose(self) -> None:
        """In a forked child, raise CudaAfterFork where CuPy would say that CUDA failed to initialise."""
        self._cupy = LostLibrary()

    def signature(self, array: Any) -> tuple[Any, ...]:
        return (array.shape, array.strides, array.dtype.char, array.data.ptr & 15, array.data.device_id)

    def view(self, array: Any, argument: str) -> View:
        strides = whole_strides(array, argument, "cupy")
        device = ("cuda", int(array.device.id))
        return View(int(array.data.ptr), array.shape, strides, array.dtype.name, device, False)

    def address(self, array: Any) -> int:
        return array.data.ptr  # type: ignore[no-any-return]

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        if self._several:
            with like.device:
                return self._cupy.ndarray(shape, like.dtype)
        return self._cupy.ndarray(shape, like.dtype)  # what cupy.empty comes down to

    def plain(self, array: Any) -> Any:
        return self._cupy.ascontiguousarray(array)

    def stream_of(self, device: tuple[str, int]) -> Callable[[], int]:
        current, ordinal = self._cupy.cuda.get_current_stream, device[1]
        if self._several:
            return lambda: current(ordinal).ptr
        return lambda: current().ptr

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        return self._cupy.matmul(a, b, out=out)


def whole_strides(array: Any, argument: str, library: str) -> tuple[int, ...]:
    """Strides in elements; those between elements raise an error."""
    item = array.itemsize or 1
    if any(stride % item for stride in array.strides):
        raise ValueError(
            f"{argument} has strides of {array.strides} bytes, no multiples of its itemsize {item}: "
            f"pass {library}.ascontiguousarray({argument})"
        )
    return tuple(stride // item for stride in array.strides)


# Subclasses that mean no more than their numbers.
_PLAIN_SUBCLASSES = (np.memmap, np.recarray)
# What a subclass overrides if its entries are not all that it holds: units, masks, products of its own.
_MEANINGS = ("__array_ufunc__", "__array_function__", "__array_wrap__", "__getitem__", "__mul__", "__matmul__")


def refusal(kind: type, argument: str) -> str:
    """Why arrays of a subclass of numpy.ndarray are not taken; empty for those that are."""
    if issubclass(kind, np.ma.MaskedArray):
        return (
            f"{argument} is a masked array, and Mansard knows no masks: pass {argument}.filled(value), or "
            f"{argument}.data where nothing is masked"
        )
    bases = kind.__mro__[: kind.__mro__.index(np.ndarray)]
    if issubclass(kind, _PLAIN_SUBCLASSES) or not any(name in vars(base) for base in bases for name in _MEANINGS):
        return ""
    return (
        f"{argument} is a {kind.__module__}.{kind.__name__}, whose meaning beyond its numbers would be lost: "
        f"pass numpy.asarray({argument})"
    )
