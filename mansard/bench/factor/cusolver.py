"""Batched eigenvalues and singular values of cuSOLVER by their names, on a handle of our own.

cuSOLVER takes columns, and overwrites A. A row-major matrix is the transpose of a column-major one: the lower triangle
of rows is the upper one of columns, and A = U S V^H by rows is A^T = conj(V) S U^T by columns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...plan.problem import REAL
from ..batched.cublas import LETTER
from .entries import InPlace
from .peers import Held

WIDEST_JACOBI = 32  # rows that gesvdjBatched takes
_TYPES = {"float32": 0, "float64": 1, "complex64": 4, "complex128": 5}  # of cudaDataType
_UPPER = 1
_int, _long, _size = ctypes.c_int, ctypes.c_longlong, ctypes.c_size_t

Way = Callable[..., dict[str, Any]]


class Cusolver:
    """Batched two-sided factorizations of cuSOLVER for one dtype."""

    def __init__(self, cupy: Any, dtype: str) -> None:
        self.cupy, self.dtype = cupy, dtype

    def ways(self, operation: str, n: int) -> dict[str, Way]:
        """Accurate routines for an operation on n x n matrices."""
        if operation in ("eigh", "eigvalsh"):
            return {"cusolver XsyevBatched": self.eigenvalues(operation == "eigh")}
        if operation in ("svd", "svdvals"):
            return {"cusolver gesvdjBatched": self.singular_values(operation == "svd")}
        name = "gebrd" if operation == "bidiagonalize" else "hetrd" if self.dtype.startswith("complex") else "sytrd"
        return {f"cusolver {name} for each": self.reductions(name)}

    def _in_place(self, run: Callable[[Any, Any], dict[str, Any]]) -> Way:
        """A routine that overwrites its operand: A is copied to where it works before the clock starts."""
        held = Held()

        def restore(A: Any, B: Any) -> dict[str, Any]:
            held(A, lambda: self.cupy.empty_like(A))[...] = A
            return {}

        return InPlace(restore, lambda A, B: run(A, held(A, lambda: self.cupy.empty_like(A))))

    def eigenvalues(self, vectors: bool) -> Way:
        """XsyevBatched; vectors of conj(A), which the columns hold, are conj(Z)."""
        held = Held()

        def run(A: Any, work: Any) -> dict[str, Any]:
            W, info, buffers = held(A, lambda: self._memory(A, vectors))
            self._syev("", vectors, work, W, *buffers, info)
            found = {"W": W, "INFO": info}
            return found | ({"Z": self._conjugate(work.swapaxes(1, 2))} if vectors else {})

        return self._in_place(run)

    def _memory(self, A: Any, vectors: bool) -> tuple[Any, Any, tuple[Any, ...]]:
        """Values, info, and workspaces on the device and on the host with their sizes."""
        W = self.cupy.empty(A.shape[:2], REAL[self.dtype])
        device, host = _size(), _size()
        self._syev("_bufferSize", vectors, A, W, ctypes.byref(device), ctypes.byref(host))
        on_device = self.cupy.empty(max(1, device.value), "uint8")
        on_host = ctypes.create_string_buffer(max(1, host.value))
        return W, self.cupy.empty(len(A), "int32"), (on_device, device, on_host, host)

    def _syev(self, suffix: str, vectors: bool, A: Any, W: Any, *rest: Any) -> None:
        library, handle, parameters, _ = _opened(self.cupy)
        kind, values, n = _TYPES[self.dtype], _TYPES[REAL[self.dtype]], _long(A.shape[-1])
        given = (parameters, _int(vectors), _int(_UPPER), n, _int(kind), A, n, _int(values), W, _int(kind))
        self._call(library, f"cusolverDnXsyevBatched{suffix}", handle, *given, *rest, _long(len(A)))

    def singular_values(self, vectors: bool) -> Way:
        """gesvdjBatched, for up to 32 rows: U' = conj(V) and V' = conj(U), as columns."""
        held = Held()

        def run(A: Any, work: Any) -> dict[str, Any]:
            library, handle, _, jacobi = _opened(self.cupy)
            S, U, V, info, buffer = held(A, lambda: self._jacobi_memory(A, vectors))
            given = self._jacobi(vectors, work, S, U, V)
            name, length = f"cusolverDn{LETTER[self.dtype]}gesvdjBatched", _int(buffer.size)
            self._call(library, name, handle, *given, buffer, length, info, jacobi, _int(len(A)))
            found = {"W": S, "INFO": info}
            return found | ({"U": self._conjugate(V.swapaxes(1, 2)), "VH": U} if vectors else {})

        return self._in_place(run)

    def _jacobi(self, vectors: bool, A: Any, S: Any, U: Any, V: Any) -> tuple[Any, ...]:
        n = _int(A.shape[-1])
        return _int(vectors), n, n, A, n, S, U, n, V, n

    def _jacobi_memory(self, A: Any, vectors: bool) -> tuple[Any, ...]:
        library, handle, _, jacobi = _opened(self.cupy)
        S = self.cupy.empty(A.shape[:2], REAL[self.dtype])
        U, V = (self.cupy.empty_like(A) for _ in range(2))
        length, name = _int(), f"cusolverDn{LETTER[self.dtype]}gesvdjBatched_bufferSize"
        given = self._jacobi(vectors, A, S, U, V)
        self._call(library, name, handle, *given, ctypes.byref(length), jacobi, _int(len(A)))
        return S, U, V, self.cupy.empty(len(A), "int32"), self.cupy.empty(max(1, length.value), self.dtype)

    def approximate(self, vectors: bool) -> Way:
        """gesvdaStridedBatched: by A^H A, not accurate. It leaves A alone."""
        held = Held()

        def run(A: Any, B: Any) -> dict[str, Any]:
            S, U, V, info, buffer = held(A, lambda: self._approximate_memory(A, vectors))
            residuals = ctypes.c_void_p()  # which it computes on the host unless this is null
            self._gesvda("", vectors, A, S, U, V, buffer, _int(buffer.size), info, residuals)
            return {"W": S} | ({"U": self._conjugate(V.swapaxes(1, 2)), "VH": U} if vectors else {})

        return run

    def _approximate_memory(self, A: Any, vectors: bool) -> tuple[Any, ...]:
        S = self.cupy.empty(A.shape[:2], REAL[self.dtype])
        U, V = (self.cupy.empty_like(A) for _ in range(2))
        length = _int()
        self._gesvda("_bufferSize", vectors, A, S, U, V, ctypes.byref(length))
        return S, U, V, self.cupy.empty(len(A), "int32"), self.cupy.empty(max(1, length.value), self.dtype)

    def _gesvda(self, suffix: str, vectors: bool, A: Any, S: Any, U: Any, V: Any, *rest: Any) -> None:
        library, handle, *_ = _opened(self.cupy)
        n = A.shape[-1]
        square, line = (_int(n), _long(n * n)), _long(n)
        given = (_int(vectors), _int(n), _int(n), _int(n), A, *square, S, line, U, *square, V, *square)
        name = f"cusolverDn{LETTER[self.dtype]}gesvdaStridedBatched{suffix}"
        self._call(library, name, handle, *given, *rest, _int(len(A)))

    def reductions(self, routine: str) -> Way:
        """gebrd, sytrd or hetrd, matrix by matrix: there is no batched one."""
        held = Held()

        def memory(A: Any) -> tuple[Any, ...]:
            D, E = (self.cupy.empty((len(A), A.shape[-1] - less), REAL[self.dtype]) for less in (0, 1))
            taus = [self.cupy.empty(A.shape[-1], self.dtype) for _ in range(2 if routine == "gebrd" else 1)]
            n, length = _int(A.shape[-1]), _int()
            before = (n, n) if routine == "gebrd" else (_int(_UPPER), n)
            given = () if routine == "gebrd" else (A, n, D, E, taus[0])
            self._reduce(f"{routine}_bufferSize", *before, *given, ctypes.byref(length))
            return D, E, taus, self.cupy.empty(1, "int32"), self.cupy.empty(max(1, length.value), self.dtype), before

        def run(A: Any, work: Any) -> dict[str, Any]:
            D, E, taus, info, buffer, before = held(A, lambda: memory(A))
            for one, d, e in zip(work, D, E, strict=True):
                self._reduce(routine, *before, one, before[1], d, e, *taus, buffer, _int(buffer.size), info)
            return {"D": D, "E": E}

        return self._in_place(run)

    def _reduce(self, routine: str, *given: Any) -> None:
        library, handle, *_ = _opened(self.cupy)
        self._call(library, f"cusolverDn{LETTER[self.dtype]}{routine}", handle, *given)

    def _call(self, library: Any, name: str, handle: Any, *arguments: Any) -> None:
        """Arrays are handed over by address, everything else as it is."""
        given = [ctypes.c_void_p(one.data.ptr) if hasattr(one, "dtype") else one for one in arguments]
        library.cusolverDnSetStream(handle, ctypes.c_void_p(self.cupy.cuda.get_current_stream().ptr))
        if failed := getattr(library, name)(handle, *given):
            raise RuntimeError(f"{name} returned {failed}")

    def _conjugate(self, array: Any) -> Any:
        return array.conj() if self.dtype.startswith("complex") else array


@lru_cache(maxsize=1)
def _opened(cupy: Any) -> tuple[Any, Any, Any, Any]:
    """The library that CuPy has loaded, a handle, parameters of XsyevBatched and of gesvdj. cuSOLVER's number is one
    below CUDA's."""
    name = f"libcusolver.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000 - 1}"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise RuntimeError(f"{name} cannot be loaded: {error}") from error
    made = {name: ctypes.c_void_p() for name in ("Create", "CreateParams", "CreateGesvdjInfo")}
    for routine, place in made.items():
        if failed := getattr(library, f"cusolverDn{routine}")(ctypes.byref(place)):
            raise RuntimeError(f"cusolverDn{routine} returned {failed}")
    handle, parameters, jacobi = made.values()
    return library, handle, parameters, jacobi
