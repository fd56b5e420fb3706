"""cuSPARSE's products by their algorithms, called by name on CuPy's handle: CSR by each of them, and sliced ELLPACK.

CuPy and PyTorch use the default algorithm for CSR. Here matrices are analysed once (`cusparseSpMV_preprocess`) and
converted once, before anything is timed, as ours are.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

Product = Callable[[Any, Any], Any]  # of a vector and of where the result goes
ALGORITHMS = {"CSR default": 0, "CSR_ALG1": 2, "CSR_ALG2": 3}
_SELL = ("SELL_ALG1", 5)
SLICE = 32  # rows of a slice
_PADDED = 3.0  # stored entries per entry beyond which a matrix is not converted
_PART = 1 << 26  # entries that are placed at once
_TYPES = {"float32": 0, "float64": 1, "complex64": 4, "complex128": 5}  # cudaDataType
_INT32, _INT64 = 2, 3  # cusparseIndexType_t
_NOT_TRANSPOSED, _FROM_ZERO = 0, 0
_long, _pointer = ctypes.c_int64, ctypes.c_void_p


def ways(cupy: Any, csr: Any) -> dict[str, Product]:
    """Products of the matrix by every algorithm that takes it."""
    library = _library(cupy)
    made: dict[str, Product] = {}
    for name, number in ALGORITHMS.items():
        made[f"cusparseSpMV(A, x, out), {name}"] = Matrix(cupy, library, csr, number).product
    with suppress(ValueError, AttributeError):  # too much padding, or a library before 12.1
        made[f"cusparseSpMV(A, x, out), {_SELL[0]}"] = Sliced(cupy, library, csr, _SELL[1]).product
    return made


class Matrix:
    """A descriptor of a CSR matrix, with one algorithm's buffer."""

    def __init__(self, cupy: Any, library: Any, csr: Any, algorithm: int) -> None:
        self.cupy, self.library, self.algorithm = cupy, library, algorithm
        self.shape, self.dtype = csr.shape, str(csr.data.dtype)
        self.one, self.zero = (np.full(1, value, self.dtype) for value in (1, 0))
        self._vectors: dict[tuple[int, int], Any] = {}
        self._buffer: Any = None
        self.descriptor = _pointer()
        self._create(csr)
        weakref.finalize(self, _destroy, library, self.descriptor, self._vectors).atexit = False

    def _create(self, csr: Any) -> None:
        self.held = (csr.indptr, csr.indices, csr.data)
        types = (_index_type(csr.indptr), _index_type(csr.indices), _FROM_ZERO, _TYPES[self.dtype])
        self._call("CreateCsr", ctypes.byref(self.descriptor), *map(_long, (*self.shape, csr.data.size)),
                   *map(_address, self.held), *types)  # fmt: skip

    def product(self, x: Any, out: Any) -> Any:
        """A x in `out`."""
        handle = _pointer(self.cupy.cuda.device.get_cusparse_handle())
        self._call("SetStream", handle, _pointer(self.cupy.cuda.get_current_stream().ptr))
        one, zero = (_pointer(each.ctypes.data) for each in (self.one, self.zero))
        about = (handle, _NOT_TRANSPOSED, one, self.descriptor, self._vector(x), zero, self._vector(out),
                 _TYPES[self.dtype], self.algorithm)  # fmt: skip
        if self._buffer is None:
            size = ctypes.c_size_t()
            self._call("SpMV_bufferSize", *about, ctypes.byref(size))
            self._buffer = self.cupy.empty(max(1, size.value), "uint8")
            if hasattr(self.library, "cusparseSpMV_preprocess"):
                self._call("SpMV_preprocess", *about, _address(self._buffer))
        self._call("SpMV", *about, _address(self._buffer))
        return out

    def _vector(self, array: Any) -> Any:
        key = (int(array.data.ptr), int(array.size))
        if key not in self._vectors:
            made = _pointer()
            self._call("CreateDnVec", ctypes.byref(made), _long(array.size), _address(array), _TYPES[self.dtype])
            self._vectors[key] = made
        return self._vectors[key]

    def _call(self, name: str, *arguments: Any) -> None:
        failed = getattr(self.library, f"cusparse{name}")(*arguments)
        if failed:
            raise RuntimeError(f"cusparse{name} returned {failed}")


class Sliced(Matrix):
    """A descriptor of a matrix in sliced ELLPACK."""

    def _create(self, csr: Any) -> None:
        self.held = sliced(self.cupy, csr)
        offsets, columns, values = self.held
        sizes = (*self.shape, csr.data.size, values.size, SLICE)
        types = (_index_type(offsets), _index_type(columns), _FROM_ZERO, _TYPES[self.dtype])
        self._call("CreateSlicedEll", ctypes.byref(self.descriptor), *map(_long, sizes), *map(_address, self.held),
                   *types)  # fmt: skip


def sliced(xp: Any, csr: Any) -> tuple[Any, Any, Any]:
    """Offsets of slices of rows, columns and values: entry j of row r of a slice at j * SLICE + r; padding has column
    -1. A ValueError where there would be too much of it."""
    rows, nnz = int(csr.shape[0]), int(csr.data.size)
    lengths = xp.zeros(-(-rows // SLICE) * SLICE, "int64")
    lengths[:rows] = xp.diff(csr.indptr)
    widths = lengths.reshape(-1, SLICE).max(axis=1)
    offsets = xp.zeros(widths.size + 1, "int64")
    offsets[1:] = xp.cumsum(widths * SLICE)
    total = int(offsets[-1])
    if total > _PADDED * max(1, nnz):
        raise ValueError(f"{total / max(1, nnz):.3g} stored entries per entry")
    columns, values = xp.full(total, -1, "int32"), xp.zeros(total, csr.data.dtype)
    starts = csr.indptr.astype("int64")
    for first in range(0, nnz, _PART):
        entries = xp.arange(first, min(nnz, first + _PART), dtype="int64")
        row = xp.searchsorted(starts, entries, side="right") - 1
        place = offsets[row // SLICE] + (entries - starts[row]) * SLICE + row % SLICE
        columns[place] = csr.indices[first : first + _PART]
        values[place] = csr.data[first : first + _PART]
    return offsets.astype("int32") if total < 1 << 31 else offsets, columns, values


def _index_type(array: Any) -> int:
    return _INT32 if array.dtype.itemsize == 4 else _INT64


def _address(array: Any) -> Any:
    return _pointer(int(array.data.ptr))


def _destroy(library: Any, matrix: Any, vectors: dict[Any, Any]) -> None:
    library.cusparseDestroySpMat(matrix)
    for each in vectors.values():
        library.cusparseDestroyDnVec(each)


@lru_cache(maxsize=1)
def _library(cupy: Any) -> Any:
    """The library that CuPy has loaded, found by where it is mapped."""
    cupy.cuda.device.get_cusparse_handle()
    with open("/proc/self/maps") as maps:
        paths = sorted({line.split()[-1] for line in maps if "libcusparse.so" in line})
    for name in (*paths, "libcusparse.so.12", "libcusparse.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError("libcusparse cannot be loaded")
