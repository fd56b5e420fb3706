"""The only file that knows array libraries: NumPy, CuPy, PyTorch, and JAX through DLPack.

Each library is one `Kind`: it describes an array (`View`: address, shape, strides, dtype, device), allocates results
of its own type, and names the caller's current stream. Libraries are looked up in `sys.modules`, never imported:
whoever hands us a tensor has imported them already.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..backends.cuda_driver import LostLibrary
from ..plan.problem import DTYPES


class View(NamedTuple):
    """An array as kernels see it; strides count elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: tuple[str, int]  # ("cpu", 0) or ("cuda", ordinal)
    readonly: bool
    conjugated: bool = False  # the memory holds the conjugate (PyTorch's lazy conj())


def _interface_address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _address_reader() -> Callable[[Any], int]:
    """How the address of a NumPy array is read: NumPy's binary interface has it behind the object's head, which takes
    a fifth of the time of asking for the array's interface. Where it is not there, the interface is asked."""
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

    def signature(self, array: Any) -> tuple[Any, ...]:
        """Cheap, hashable, and different whenever planning could differ; the address enters by its alignment."""
        dtype = array.dtype
        return (
            array.shape, array.strides, dtype.char, dtype.byteorder, _address(array) & 15, not array.flags.writeable,
        )  # fmt: skip

    def view(self, array: Any) -> View:
        data, readonly = array.__array_interface__["data"]
        item = array.itemsize or 1
        if not array.dtype.isnative:
            raise TypeError(f"dtype {array.dtype.str} has foreign byte order: pass array.astype({array.dtype.name!r})")
        if any(stride % item for stride in array.strides):
            raise ValueError(
                f"strides {array.strides} are no multiples of the itemsize: pass numpy.ascontiguousarray(...)"
            )
        strides = tuple(stride // item for stride in array.strides)
        return View(data, array.shape, strides, array.dtype.name, ("cpu", 0), readonly)

    def address(self, array: Any) -> int:
        return _address(array)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return np.empty(shape, dtype)

    def plain(self, array: Any) -> Any:
        """A contiguous array that holds its values literally."""
        return np.ascontiguousarray(array)

    def stream(self, device: int) -> int:
        return 0

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        return np.matmul(a, b, out=out)

    def conj(self, array: Any) -> Any:
        return array.conj()


class CupyKind(NumpyKind):
    """cupy.ndarray, on the device where it lives and CuPy's current stream."""

    name = "CuPy"

    def __init__(self) -> None:
        self._cupy: Any = sys.modules["cupy"]
        self._stream = self._cupy.cuda.get_current_stream
        self._several = self._cupy.cuda.runtime.getDeviceCount() > 1
        os.register_at_fork(after_in_child=self._lose)

    def _lose(self) -> None:
        """In a forked child, raise CudaAfterFork where CuPy would say that CUDA failed to initialise."""
        self._cupy, self._stream = LostLibrary(), LostLibrary()

    def signature(self, array: Any) -> tuple[Any, ...]:
        return (array.shape, array.strides, array.dtype.char, array.data.ptr & 15, array.data.device_id)

    def view(self, array: Any) -> View:
        item = array.itemsize
        strides = tuple(stride // item for stride in array.strides)
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

    def stream(self, device: int) -> int:
        return (self._stream(device) if self._several else self._stream()).ptr  # type: ignore[no-any-return]

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        return self._cupy.matmul(a, b, out=out)


class TorchKind:
    """torch.Tensor on the CPU or on a GPU."""

    name = "PyTorch"

    def __init__(self) -> None:
        self._torch = torch = sys.modules["torch"]
        self._names = {getattr(torch, name): name for name in DTYPES}
        # the raw handle: building a Stream object would cost more than the launch
        self._raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def signature(self, array: Any) -> tuple[Any, ...]:
        # flat, and the device by number: hashing a torch.device costs as much as all the rest
        return (
            array.shape, array.stride(), array.dtype, array.data_ptr() & 15, array.get_device(), array.is_conj(),
            array.is_neg(), array.requires_grad,
        )  # fmt: skip

    def view(self, array: Any) -> View:
        if array.requires_grad and self._torch.is_grad_enabled():
            raise TypeError(
                "the tensor requires a gradient and Mansard records none: pass tensor.detach(), or call inside "
                "torch.no_grad()"
            )
        if array.layout is not self._torch.strided:
            raise TypeError(f"a tensor with layout {array.layout} is not a dense matrix: pass tensor.to_dense()")
        if array.is_neg():
            raise TypeError("the tensor is lazily negated: pass tensor.resolve_neg()")
        name = self._names.get(array.dtype, str(array.dtype).removeprefix("torch."))
        device = (array.device.type, array.device.index or 0)
        return View(array.data_ptr(), tuple(array.shape), array.stride(), name, device, False, array.is_conj())

    def address(self, array: Any) -> int:
        return array.data_ptr()  # type: ignore[no-any-return]

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        # dtype and device come along; new_empty costs 2 us more
        return like.new_empty_strided(shape, (shape[1], 1) if len(shape) == 2 else _dense_strides(shape))

    def plain(self, array: Any) -> Any:
        return array.resolve_conj().resolve_neg().contiguous()

    def stream(self, device: int) -> int:
        return self._raw_stream(device) if self._raw_stream else 0

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        return self._torch.matmul(a, b, out=out)

    def conj(self, array: Any) -> Any:
        return array.conj()


@lru_cache(maxsize=1024)
def _dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


class JaxKind:
    """jax.Array, through DLPack. JAX arrays cannot change: a call unwraps them, works on what is inside without a copy,
    and hands its result back as a JAX array."""

    name = "JAX"

    def __init__(self) -> None:
        self._jax = sys.modules["jax"]

    def unwrap(self, array: Any) -> Any:
        """The same memory as a NumPy or CuPy array."""
        array.block_until_ready()  # JAX's own streams are not ours to order with
        if next(iter(array.devices())).platform == "cpu":
            return np.from_dlpack(array)
        import cupy

        return cupy.from_dlpack(array)

    def wrap(self, array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            sys.modules["cupy"].cuda.get_current_stream().synchronize()
        return self._jax.dlpack.from_dlpack(array)


KINDS: dict[str, Any] = {"numpy": NumpyKind()}
_MAKERS = {"cupy": CupyKind, "torch": TorchKind, "jax": JaxKind}
_BY_TYPE: dict[type, Any] = {np.ndarray: KINDS["numpy"]}


def _kind(name: str) -> Any:
    if name not in KINDS:
        KINDS.setdefault(name, _MAKERS[name]())  # of two threads' kinds, the first stays: kinds are told apart by `is`
    return KINDS[name]


def known_kind(array: Any) -> Any:
    """The kind of an array whose type was seen before; None for types still to be looked at, and for JAX."""
    kind = _BY_TYPE.get(type(array))
    return None if kind is None or kind.name == "JAX" else kind


def kind_of(array: Any, argument: str) -> Any:
    """The kind of one argument; a TypeError names the argument if it is no array we know."""
    kind = _BY_TYPE.get(type(array))
    if kind is not None:
        return kind
    for base in type(array).__mro__:
        root = base.__module__.partition(".")[0]
        if root == "jaxlib" or (root == "jax" and "Array" in base.__name__):
            root = "jax"
        if root in ("cupy", "torch", "jax") and root in sys.modules:
            kind = _BY_TYPE[type(array)] = _kind(root)
            return kind
        if base is np.ndarray:
            kind = _BY_TYPE[type(array)] = KINDS["numpy"]
            return kind
    raise TypeError(
        f"{argument} is a {type(array).__module__}.{type(array).__name__}; "
        "Mansard takes NumPy, CuPy, PyTorch and JAX arrays"
    )


def common_kind(arrays: Sequence[tuple[str, Any]]) -> Any:
    """The one kind of all arguments; mixing kinds is a TypeError that says which."""
    first_name, first = arrays[0]
    kind = kind_of(first, first_name)
    for name, array in arrays[1:]:
        other = kind_of(array, name)
        if other is not kind:
            raise TypeError(f"{first_name} is a {kind.name} array and {name} a {other.name} array: convert one of them")
    return kind


def same_device(views: Sequence[tuple[str, View]]) -> tuple[str, int]:
    """The one device of all arguments; a ValueError says which argument lies elsewhere."""
    first_name, first = views[0]
    for name, view in views[1:]:
        if view.device != first.device:
            here, there = ":".join(map(str, first.device)), ":".join(map(str, view.device))
            raise ValueError(f"{first_name} is on {here} and {name} on {there}: move one of them")
    return first.device


def extent(view: View, itemsize: int) -> tuple[int, int]:
    """First byte and one past the last byte that the view can touch."""
    if 0 in view.shape:
        return view.address, view.address
    low = high = 0
    for size, stride in zip(view.shape, view.strides, strict=True):
        reach = (size - 1) * stride
        low, high = low + min(0, reach), high + max(0, reach)
    return view.address + low * itemsize, view.address + (high + 1) * itemsize
