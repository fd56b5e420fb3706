"""CuPy arrays: the attributes of NumPy's, on a GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.cuda_driver import LostLibrary
from ..plan.problem import DTYPES
from . import cupy_blas, triangles
from .cupy_linalg import CupyLinalg
from .gemm import Gemm, Product
from .numpy import NumpyKind, whole_strides
from .types import Maker, StreamSource
from .view import View


class _Lent:
    """A stream of another library, in the form of CUDA's stream protocol."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address  # version of the protocol, cudaStream_t


def stream_at(cupy: Any, address: int) -> Any:
    """CuPy's view of a stream that another library owns. CuPy 14 takes it by protocol, older ones by its address."""
    made = getattr(cupy.cuda.Stream, "from_external", None)
    return cupy.cuda.ExternalStream(address) if made is None else made(_Lent(address))


class CupyKind(NumpyKind):
    """cupy.ndarray, on the device where it lives and CuPy's current stream."""

    name, package = "CuPy", "cupy"
    promotes = False
    batches_matmul = True
    prefers_blas = True  # its matmul takes 16 us before cuBLAS is called, and no graph holds it
    cublas_dtypes = DTYPES
    on_host_alone = False
    most_eigenproblems = 1 << 20  # cuSOLVER's syevjBatched

    def __init__(self) -> None:
        self.module = sys.modules["cupy"]
        self._several = self.module.cuda.runtime.getDeviceCount() > 1
        self.spmv = _spmv
        os.register_at_fork(after_in_child=self._lose)

    def _lose(self) -> None:
        """In a forked child, raise CudaAfterFork where CuPy would say that CUDA failed to initialise."""
        self.module = LostLibrary()

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
                return self.module.ndarray(shape, like.dtype)
        return self.module.ndarray(shape, like.dtype)  # what cupy.empty comes down to

    def plain(self, array: Any) -> Any:
        return self.module.ascontiguousarray(array)

    def stream_of(self, device: tuple[str, int]) -> Callable[[], int]:
        current, ordinal = self.module.cuda.get_current_stream, device[1]
        if self._several:
            return lambda: current(ordinal).ptr
        return lambda: current().ptr

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        return self.module.matmul(a, b, out=out)

    def allocate(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        with like.device:
            return self.module.empty(shape, dtype)

    def allocator(self, shape: tuple[int, ...], dtype: str, of_operand: str) -> Callable[[Any], Any]:
        if dtype == of_operand and len(shape) > 1:
            return lambda like: self.empty(shape, dtype, like)
        if self._several:
            return lambda like: self.allocate(shape, dtype, like)
        bare, of_numpy = self.module.ndarray, np.dtype(dtype)
        return lambda like: bare(shape, of_numpy)  # what cupy.empty comes down to

    def maker(self, shape: tuple[int, ...], dtype: str, of_operand: str) -> Maker:
        if self._several:
            return Maker(self.allocator(shape, dtype, of_operand), (), takes_like=True)
        return Maker(self.module.ndarray, (shape, np.dtype(dtype)))

    def stream_source(self, device: tuple[str, int]) -> StreamSource | None:
        if self._several:
            return StreamSource(self.stream_of(device))
        return StreamSource(self.module.cuda.get_current_stream, has_attribute=True)

    def arange(self, count: int, like: Any) -> Any:
        with like.device:
            return self.module.arange(count)

    def diagonals(self, array: Any) -> Any:
        return array.diagonal(0, -2, -1)

    def triangle(self, array: Any, lower: bool) -> Any:
        return (self.module.tril if lower else self.module.triu)(array)

    def put_triangle(self, array: Any, values: Any, lower: bool) -> None:
        triangles.put(self.module, array, values, lower)

    def mirror(self, array: Any, lower: bool, conjugated: bool) -> None:
        triangles.mirror(self.module, array, lower, conjugated)

    def upload(self, array: Any, like: Any) -> Any:
        with like.device:
            return self.module.asarray(array)  # on the current stream

    def download(self, array: Any) -> Any:
        return array.get()

    @property
    def linalg(self) -> CupyLinalg:
        return CupyLinalg(self.module)

    def load_cublas(self) -> None:
        self.module.cuda.device.get_cublas_handle()

    def gemm(self, views: Sequence[View], layouts: Sequence[tuple[str, int]]) -> Product | None:
        run = cupy_blas.gemm(self.stream_of, views, layouts)
        return _on_its_device(run) if run is not None and self._several else run

    def strided_gemm(self, gemm: Gemm) -> Product | None:
        run = cupy_blas.strided_gemm(self.stream_of, gemm)
        return _on_its_device(run) if run is not None and self._several else run

    def memory(self, size: int, device: tuple[str, int]) -> Any:
        with self.module.cuda.Device(device[1]):
            return self.module.empty(size, np.uint8)

    def over(self, memory: Any, offset: int, view: View) -> Any:
        dtype = np.dtype(view.dtype)
        strides = tuple(stride * dtype.itemsize for stride in view.strides)
        return self.module.ndarray(view.shape, dtype, memory.data + offset, strides)


def _spmv(matrix: Any, x: Any, out: Any) -> Any:
    """A x by cuSPARSE, in `out`."""
    from cupyx import cusparse

    cusparse.spmv(matrix, x, out)
    return out


def _on_its_device(run: Product) -> Product:
    """The product on the device of its result."""

    def other(A: Any, B: Any, C: Any, alpha: complex, beta: complex) -> None:
        with C.device:
            run(A, B, C, alpha, beta)

    return other
