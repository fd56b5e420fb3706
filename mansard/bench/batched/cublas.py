"""Batched routines of cuBLAS that neither CuPy nor PyTorch hands out: called by their names on CuPy's handle.

cuBLAS takes columns. A row-major matrix is the transpose of a column-major one, so C = A B is asked for as C^T = B^T
A^T, A x as the transpose of what lies there times x, and A X = B as X^T A^T = B^T.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..cases import Case
from .operations import ragged_sizes

LETTER = {"float32": "S", "float64": "D", "complex64": "C", "complex128": "Z"}
_PLAIN, _TURNED = 0, 1  # operations
_RIGHT, _LOWER, _UPPER, _NON_UNIT = 1, 0, 1, 0
_int, _long = ctypes.c_int, ctypes.c_longlong


class Cublas:
    """Batched routines of cuBLAS for one dtype."""

    def __init__(self, cupy: Any, dtype: str) -> None:
        self.cupy, self.dtype, self.letter = cupy, dtype, LETTER[dtype]
        self.one, self.zero = (np.full(1, value, dtype) for value in (1, 0))

    def _call(self, name: str, *arguments: Any) -> None:
        """Arrays are handed over by address, integers as they are. The handle's stream is whatever CuPy last set, which
        may be gone by now: a stream that was captured, say."""
        given = [_address(each) if hasattr(each, "dtype") else each for each in arguments]
        library, handle = _library(self.cupy), ctypes.c_void_p(self.cupy.cuda.device.get_cublas_handle())
        library.cublasSetStream_v2(handle, ctypes.c_void_p(self.cupy.cuda.get_current_stream().ptr))
        failed = getattr(library, f"cublas{self.letter}{name}")(handle, *given)
        if failed:
            raise RuntimeError(f"cublas{self.letter}{name} returned {failed}")

    def products(self, case: Case) -> Callable[..., Any]:
        """C = A B, or C += A B where the case accumulates."""
        beta = self.one if case.accumulate else self.zero
        m, n, k = case.M, case.N, case.inner or case.M

        def run(A: Any, B: Any, out: Any) -> Any:
            sizes = (_int(n), _int(m), _int(k))
            right, left = (B, _int(n), _long(k * n)), (A, _int(k), _long(m * k))
            result = (out, _int(n), _long(m * n), _int(len(A)))
            self._call("gemmStridedBatched", _PLAIN, _PLAIN, *sizes, self.one, *right, *left, beta, *result)
            return out

        return run

    def vectors(self, case: Case) -> Callable[..., Any]:
        rows, columns = case.M, case.inner or case.M
        turned = case.form == "T"
        entries = (rows, columns) if turned else (columns, rows)

        def run(A: Any, x: Any, out: Any) -> Any:
            matrices = (A, _int(columns), _long(rows * columns))
            one, two = ((each, _int(1), _long(step)) for each, step in zip((x, out), entries, strict=True))
            self._call("gemvStridedBatched", _PLAIN if turned else _TURNED, _int(columns), _int(rows), self.one,
                       *matrices, *one, self.zero, *two, _int(len(A)))  # fmt: skip
            return out

        return run

    def systems(self, case: Case) -> Callable[..., Any]:
        order, columns = case.M, case.N
        triangle = _LOWER if "U" in case.form else _UPPER  # of the transpose
        held: dict[tuple[int, ...], tuple[Any, Any]] = {}

        def run(A: Any, B: Any, out: Any) -> Any:
            key = (A.data.ptr, out.data.ptr, len(A))
            if key not in held:
                held[key] = self._pointers(A, order * order), self._pointers(out, order * columns)
            a, x = held[key]
            self._call("trsmBatched", _RIGHT, triangle, _PLAIN, _NON_UNIT, _int(columns), _int(order), self.one, a,
                       _int(order), x, _int(columns), _int(len(A)))  # fmt: skip
            return out

        return run

    def _pointers(self, stack: Any, step: int) -> Any:
        return stack.data.ptr + self.cupy.arange(len(stack), dtype="int64") * (step * stack.itemsize)

    def ragged(self, case: Case, grouped: bool) -> Callable[..., None]:
        """Matrices of one size at once, or all of them with their sizes."""
        held: dict[int, list[tuple[int, int, Any, Any, Any]]] = {}

        def run(A: Any, B: Any, out: Any) -> None:
            key = A.buffer.data.ptr
            if key not in held:
                held[key] = self._groups(case, A, B, out, grouped)
            if grouped:
                self._call("gemmGroupedBatched", *self._grouped(case, held[key]))
                return
            for size, count, a, b, c in held[key]:
                width = size if case.N > 1 else 1
                self._call("gemmBatched", _PLAIN, _PLAIN, _int(width), _int(size), _int(size), self.one, b, _int(width),
                           a, _int(size), self.zero, c, _int(width), _int(count))  # fmt: skip

        return run

    def _groups(self, case: Case, A: Any, B: Any, out: Any, together: bool) -> list[tuple[int, int, Any, Any, Any]]:
        """Size, number, and addresses of A, B and C; of all groups in one array where they are handed over together."""
        sizes, item = ragged_sizes(case.M, case.K), A.buffer.itemsize
        order = np.argsort(sizes, kind="stable")
        counts = np.bincount(sizes, minlength=case.M + 1)
        every = [
            self.cupy.asarray(each.buffer.data.ptr + np.asarray(each.layout.host()[2])[order] * item)
            for each in (A, B, out)
        ]
        found, first = [], 0
        for size in range(1, case.M + 1):
            count = int(counts[size])
            if count:
                part = slice(first, first + count)
                found.append((size, count, *(each if together else each[part] for each in every)))
                first += count
        return found

    def _grouped(self, case: Case, groups: list[tuple[int, int, Any, Any, Any]]) -> list[Any]:
        sizes = np.array([size for size, *_ in groups], np.int32)
        counts = np.array([count for _, count, *_ in groups], np.int32)
        widths = sizes if case.N > 1 else np.ones_like(sizes)
        plain, (_, _, a, b, c) = np.zeros_like(sizes), groups[0]
        one, zero = (np.full(len(sizes), value, self.dtype) for value in (1, 0))
        self._kept = (sizes, counts, widths, plain, one, zero)  # until the call is over
        return [plain, plain, widths, sizes, sizes, one, b, widths, a, sizes, zero, c, widths, _int(len(sizes)), counts]


def _address(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


@lru_cache(maxsize=1)
def _library(cupy: Any) -> Any:
    """The one that CuPy has loaded: there may be another, PyTorch's."""
    name = f"libcublas.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise RuntimeError(f"{name} cannot be loaded: {error}") from error
