"""NumPy arrays."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .gemm import Gemm, Product
from .result_memory import POOL, SMALLEST
from .types import Maker, StreamSource
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


@lru_cache(maxsize=64)
def _name(dtype: Any) -> str:
    """The name of a dtype, which takes NumPy as long as everything else that describes an array."""
    return str(dtype.name)


_SMALL = SMALLEST // 16  # entries of which no dtype has as many bytes as the pool gives
_ROW = 8  # columns from which NumPy multiplies rows of an outer product by vector instructions


def _is_vectorized(a: Any, b: Any) -> bool:
    """Whether an outer product is faster as a product of entries: `matmul` has a scalar loop for depth one."""
    return bool(b.shape[-1] >= _ROW or b.shape[-1] == 1 or a.shape[-2] == 1)


class NumpyKind:
    """numpy.ndarray."""

    name, package = "NumPy", "numpy"
    module: Any = np
    immutable = False
    answer = None
    promotes = True
    batches_matmul = False
    prefers_blas = False
    cublas_dtypes: tuple[str, ...] = ()
    has_numpy_methods = True
    on_host_alone = True
    most_eigenproblems = 1 << 62
    spmv: Callable[[Any, Any, Any], Any] | None = None
    address = staticmethod(_address)  # called by every Python path, for every operand
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
        return View(data, array.shape, strides, _name(array.dtype), ("cpu", 0), readonly)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return np.empty(shape, dtype) if prod(shape) < _SMALL else POOL.array(shape, np.dtype(dtype))

    def plain(self, array: Any) -> Any:
        """A contiguous array that holds its values literally."""
        return np.ascontiguousarray(array)

    def stream_of(self, device: tuple[str, int]) -> Callable[[], int]:
        """A function that names the caller's current stream on the device. Plans ask for it once: what a CPU array
        gets calls no CUDA library."""
        return no_stream

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        if a.shape[-1] == 1 and a.ndim > 1 and b.ndim > 1 and b.shape[-2] == 1 and _is_vectorized(a, b):
            return np.multiply(a, b, out=out)
        return np.matmul(a, b) if out is None else np.matmul(a, b, out=out)

    def load_cublas(self) -> None:
        """Do nothing: products of arrays in the CPU's memory are not cuBLAS's."""

    def conj(self, array: Any) -> Any:
        return array.conj()

    def allocate(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return np.empty(shape, dtype)

    def allocator(self, shape: tuple[int, ...], dtype: str, of_operand: str) -> Callable[[Any], Any]:
        of_numpy = np.dtype(dtype)  # which takes longer to find by its name than to allocate
        make = POOL.array if prod(shape) >= _SMALL else np.empty
        return lambda like: make(shape, of_numpy)

    def maker(self, shape: tuple[int, ...], dtype: str, of_operand: str) -> Maker:
        return Maker(POOL.array if prod(shape) >= _SMALL else np.empty, (shape, np.dtype(dtype)))

    def stream_source(self, device: tuple[str, int]) -> StreamSource | None:
        return None

    def arange(self, count: int, like: Any) -> Any:
        return np.arange(count)

    def astype(self, array: Any, dtype: Any) -> Any:
        return array.astype(dtype, copy=False)

    def diagonals(self, array: Any) -> Any:
        size = min(array.shape[-2:])
        if array.ndim == 2 and array.flags.c_contiguous:
            step = array.shape[1] + 1
            return array.reshape(-1)[: size * step : step]
        return np.einsum("...ii->...i", array[..., :size, :size])  # ndarray.diagonal cannot be written to

    def triangle(self, array: Any, lower: bool) -> Any:
        rows, columns = array.shape[-2:]
        word = _WORDS.get(array.dtype.name)
        if array.strides[-1] != array.itemsize == array.strides[-2]:  # columns are adjacent: those of the transpose
            return self.triangle(array.swapaxes(-1, -2), not lower).swapaxes(-1, -2)
        array = array if array.strides[-1] == array.itemsize else np.ascontiguousarray(array)
        if word is None or not array.size:
            return np.where(_mask(rows, columns, lower), array, array.dtype.type(0))
        bits = (_small_bits if rows * columns <= _SMALL_MASK else _bits)(rows, columns, lower, word, array.itemsize)
        return np.bitwise_and(array.view(word), bits).view(array.dtype)

    def put_triangle(self, array: Any, values: Any, lower: bool) -> None:
        order = array.shape[-1]
        if order <= _FEW_ROWS and array.size > _SMALL_MASK:
            for i in range(order):
                part = slice(0, i + 1) if lower else slice(i, order)
                array[..., i, part] = values[..., i, part]
            return
        mask = (_small_mask if order * order <= _SMALL_MASK else _mask)(order, order, lower)
        for some in _in_cache(array):
            np.copyto(array[some], values[some], where=mask)

    def mirror(self, array: Any, lower: bool, conjugated: bool) -> None:
        array, order = array if lower else array.swapaxes(-1, -2), array.shape[-1]
        if order <= _FEW_ROWS and array.size > _SMALL_MASK:
            for i in range(1, order):
                array[..., :i, i] = array[..., i, :i].conj() if conjugated else array[..., i, :i]
            return
        mask = (_small_above if order * order <= _SMALL_MASK else _above)(order)
        for some in _in_cache(array):
            values = array[some].swapaxes(-1, -2)
            np.copyto(array[some], values.conj() if conjugated else values.copy(), where=mask)

    def take_along(self, array: Any, index: Any, axis: int) -> Any:
        return self.module.take_along_axis(array, index, axis)

    def put_along(self, array: Any, index: Any, values: Any, axis: int) -> None:
        self.module.put_along_axis(array, index, values, axis)

    def upload(self, array: Any, like: Any) -> Any:
        return array

    def download(self, array: Any) -> Any:
        return array

    def unwrap(self, array: Any, argument: str) -> Any:
        return array

    def wrap(self, array: Any) -> Any:
        return array

    def check_matmul(self, dtypes: dict[str, str]) -> None:
        """NumPy multiplies all dtypes, and different ones."""

    def gemm(self, views: Sequence[View], layouts: Sequence[tuple[str, int]]) -> Product | None:
        return None

    def strided_gemm(self, gemm: Gemm) -> Product | None:
        return None

    def memory(self, size: int, device: tuple[str, int]) -> Any:
        return np.empty(size, np.uint8)

    def over(self, memory: Any, offset: int, view: View) -> Any:
        dtype = np.dtype(view.dtype)
        strides = tuple(stride * dtype.itemsize for stride in view.strides)
        made: Any = np.ndarray(view.shape, dtype, memory, offset, strides)
        made.flags.writeable = not view.readonly
        return made


_SMALL_MASK = 1 << 16  # entries up to which masks are kept
_FEW_ROWS = 8  # rows of a matrix up to which triangles are copied row by row: a masked copy begins anew with every row


def _mask(rows: int, columns: int, lower: bool) -> Any:
    """True in the lower or upper triangle, diagonal included."""
    return np.tri(rows, columns, dtype=bool) if lower else np.tri(columns, rows, dtype=bool).T


def _above(order: int) -> Any:
    """True above the diagonal."""
    return ~_mask(order, order, True)


_small_above = lru_cache(maxsize=64)(_above)
_small_mask = lru_cache(maxsize=64)(_mask)  # numpy.tril makes its mask anew in every call
_WORDS = {"float32": "uint32", "float64": "uint64", "complex64": "uint32", "complex128": "uint64"}


def _bits(rows: int, columns: int, lower: bool, word: str, itemsize: int) -> Any:
    """Words with all bits set in a triangle and none elsewhere: what is ANDed with none, NaN too, becomes zero. This
    takes a third of the time of choosing by a boolean mask."""
    words = np.where(_mask(rows, columns, lower), ~np.zeros((), word), np.zeros((), word))
    return np.repeat(words, itemsize // words.itemsize, axis=-1)


_small_bits = lru_cache(maxsize=64)(_bits)
_CACHED = 1 << 18  # bytes of a stack that are worked on at a time: the second cache of a core has more


def _in_cache(array: Any) -> list[Any]:
    """Parts of a stack that fit into a cache, as indices of its first dimension."""
    if array.ndim < 3 or array.nbytes <= 2 * _CACHED:
        return [...]
    step = max(1, len(array) * _CACHED // array.nbytes)
    return [slice(i, i + step) for i in range(0, len(array), step)]


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
PLAIN_SUBCLASSES = (np.memmap, np.recarray)
# What a subclass overrides if its entries are not all that it holds: units, masks, products of its own.
_MEANINGS = ("__array_ufunc__", "__array_function__", "__array_wrap__", "__getitem__", "__mul__", "__matmul__")


def refusal(kind: type, argument: str) -> TypeError | None:
    """Why arrays of a subclass of numpy.ndarray are not taken; None for those that are."""
    if issubclass(kind, np.ma.MaskedArray):
        return TypeError(
            f"{argument} is a masked array, and Mansard knows no masks: pass {argument}.filled(value), or "
            f"{argument}.data where nothing is masked"
        )
    bases = kind.__mro__[: kind.__mro__.index(np.ndarray)]
    if issubclass(kind, PLAIN_SUBCLASSES) or not any(name in vars(base) for base in bases for name in _MEANINGS):
        return None
    return TypeError(
        f"{argument} is a {kind.__module__}.{kind.__name__}, whose meaning beyond its numbers would be lost: "
        f"pass numpy.asarray({argument})"
    )
