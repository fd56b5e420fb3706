"""cuBLAS and the CUDA driver played by host memory: products of NumPy arrays by their addresses."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_int, c_longlong, c_size_t, c_void_p
from itertools import count
from typing import Any

import numpy as np

from mansard.arrays.cublas_products import columnwise
from mansard.arrays.gemm import Gemm
from mansard.backends.cublas import Cublas, CublasLaunch

_HANDLES = count(101)  # of all libraries: the native launcher knows a handle by its number as long as the process lives
_DTYPES = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}
_OPERAND = (c_void_p, c_int)
_SIZES = (c_void_p, *(c_int,) * 5)
_SINGLE = CFUNCTYPE(c_int, *_SIZES, c_void_p, *_OPERAND, *_OPERAND, c_void_p, *_OPERAND)
_STACK = CFUNCTYPE(
    c_int, *_SIZES, c_void_p, *(*_OPERAND, c_longlong) * 2, c_void_p, *_OPERAND, c_longlong, c_int
)  # fmt: skip


def _matrix(address: int, dtype: str, rows: int, columns: int, pitch: int) -> Any:
    """Columns of a matrix, `pitch` numbers apart."""
    assert pitch >= max(1, rows), "cuBLAS refuses leading dimensions below the rows"
    item = np.dtype(dtype).itemsize
    memory = (ctypes.c_char * (((columns - 1) * pitch + rows) * item)).from_address(address)
    return np.ndarray((rows, columns), dtype, memory, strides=(item, pitch * item))


class PlayedLibrary:
    """The functions that products call. `told` has the streams and workspaces that the handles were told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, int]] = []
        self.calls: list[tuple[str, int]] = []  # name of the routine, and the handle
        self.capturing, self.context, self.status = 0, 11, 0
        self.cublasSetStream_v2 = CFUNCTYPE(c_int, c_void_p, c_void_p)(self._set_stream)
        self.cublasSetWorkspace_v2 = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)(self._set_workspace)
        self.cuStreamIsCapturing = CFUNCTYPE(c_int, c_void_p, POINTER(c_int))(self._is_capturing)
        self.cuCtxGetCurrent = CFUNCTYPE(c_int, POINTER(c_void_p))(self._current)
        for letter in _DTYPES:
            name = f"cublas{letter.upper()}gemm"
            setattr(self, f"{name}_v2", _SINGLE(self._single(letter)))
            setattr(self, f"{name}StridedBatched", _STACK(self._stack(letter)))

    def cublasCreate_v2(self, handle: Any) -> int:
        handle._obj.value = next(_HANDLES)
        return 0

    def _set_stream(self, handle: int, stream: int) -> int:
        self.told.append(("stream", handle, stream or 0))
        return 0

    def _set_workspace(self, handle: int, address: int, size: int) -> int:
        self.told.append(("workspace", handle, address or 0))
        return 0

    def _is_capturing(self, stream: int, flag: Any) -> int:
        flag[0] = self.capturing
        return 0

    def _current(self, context: Any) -> int:
        context[0] = self.context
        return 0

    def _single(self, letter: str) -> Any:
        def run(
            handle: int, left: int, right: int, m: int, n: int, k: int, alpha: int, a: int, lda: int, b: int, ldb: int,
            beta: int, c: int, ldc: int,
        ) -> int:  # fmt: skip
            self.calls.append(("gemm", handle))
            return self.status or _multiply(letter, (left, right), (m, n, k), alpha, beta, (a, lda), (b, ldb), (c, ldc))

        return run

    def _stack(self, letter: str) -> Any:
        item = np.dtype(_DTYPES[letter]).itemsize

        def run(
            handle: int, left: int, right: int, m: int, n: int, k: int, alpha: int, a: int, lda: int, step_a: int,
            b: int, ldb: int, step_b: int, beta: int, c: int, ldc: int, step_c: int, batch: int,
        ) -> int:  # fmt: skip
            self.calls.append(("stack", handle))
            for i in range(batch * (self.status == 0)):
                sides = ((a + i * step_a * item, lda), (b + i * step_b * item, ldb), (c + i * step_c * item, ldc))
                _multiply(letter, (left, right), (m, n, k), alpha, beta, *sides)
            return self.status

        return run


def _multiply(
    letter: str, operations: tuple[int, int], sizes: tuple[int, int, int], alpha: int, beta: int, *sides: Any
) -> int:
    dtype, (m, n, k) = _DTYPES[letter], sizes
    (a, lda), (b, ldb), (c, ldc) = sides
    one, nothing = (np.frombuffer((ctypes.c_char * 16).from_address(at), dtype)[0] for at in (alpha, beta))
    assert (one, nothing) == (1, 0)
    shapes = [(m, k) if operations[0] == 0 else (k, m), (k, n) if operations[1] == 0 else (n, k)]
    given = [_matrix(at, dtype, *shape, ld) for (at, ld), shape in zip(((a, lda), (b, ldb)), shapes, strict=True)]
    done = [(x, x.T, x.conj().T)[operation] for x, operation in zip(given, operations, strict=True)]
    _matrix(c, dtype, m, n, ldc)[...] = done[0] @ done[1]
    return 0


class PlayedDriver:
    """The CUDA driver as far as `CublasLaunch` uses it: contexts, captures, memory; no GPU is touched."""

    def __init__(self, lib: PlayedLibrary) -> None:
        self.lib, self.captured, self._memory = lib, 0, 5000

    def current_context(self) -> c_void_p:
        return c_void_p(self.lib.context)

    def make_current(self, ordinal: int) -> None:
        self.lib.context = 11

    def restore(self, context: c_void_p) -> None:
        self.lib.context = int(context.value or 0)

    def capture_id(self, stream: Any) -> int:
        return self.captured

    def allocate(self, size: int) -> int:
        self._memory += 1
        return self._memory


class Played:
    """Launches of products over one library and one driver."""

    def __init__(self) -> None:
        self.lib = PlayedLibrary()
        self.driver = PlayedDriver(self.lib)
        self.cublas = Cublas(self.lib)
        self.launches: list[CublasLaunch] = []

    def launch(self, gemm: Gemm | None) -> CublasLaunch | None:
        found = None if gemm is None else columnwise(gemm)
        if found is None:
            return None
        self.launches.append(CublasLaunch(self.cublas, self.driver, 0, found))  # type: ignore[arg-type]
        return self.launches[-1]
