"""cuBLAS through ctypes, for graphs: CuPy refuses to call it while a stream is being captured.

The library is the one that the process has loaded already. Handles are ours, one per device, and have no workspace: a
graph would go on using it while others do.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_int, c_longlong, c_size_t, c_void_p
from functools import lru_cache
from threading import Lock
from typing import Any

from ..errors import BackendUnavailable, LaunchError

_NAMES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11")
_OPERAND = (c_void_p, c_int)  # where it is, and its leading dimension
_SIZES = (c_void_p, *(c_int,) * 5)  # handle, two operations, m, n, k
_ARGUMENTS = {
    "gemm": (*_SIZES, c_void_p, *_OPERAND, *_OPERAND, c_void_p, *_OPERAND),
    "gemmStridedBatched": (*_SIZES, c_void_p, *(*_OPERAND, c_longlong) * 2, c_void_p, *_OPERAND, c_longlong, c_int),
}


class Cublas:
    """The products, by their names without the letter for the type."""

    def __init__(self) -> None:
        self.lib = _loaded()
        self.lib.cublasSetStream_v2.argtypes = (c_void_p, c_void_p)
        self.lib.cublasSetWorkspace_v2.argtypes = (c_void_p, c_void_p, c_size_t)
        self._handles: dict[int, c_void_p] = {}
        self._lock = Lock()

    def call(self, letter: str, name: str, device: int, stream: int, arguments: tuple[Any, ...]) -> None:
        """On a stream of the current device; `arguments` are those behind the handle."""
        routine = getattr(self.lib, f"cublas{letter.upper()}{name}" + ("_v2" if name == "gemm" else ""))
        routine.argtypes = _ARGUMENTS[name]
        with self._lock:
            handle = self._handle(device)
            self._check(self.lib.cublasSetStream_v2(handle, stream), "cublasSetStream")
            self._check(self.lib.cublasSetWorkspace_v2(handle, None, 0), "cublasSetWorkspace")
            self._check(routine(handle, *arguments), routine.__name__)

    def _handle(self, device: int) -> c_void_p:
        if device not in self._handles:
            handle = c_void_p()
            self._check(self.lib.cublasCreate_v2(byref(handle)), "cublasCreate")
            self._handles[device] = handle
        return self._handles[device]

    @staticmethod
    def _check(status: int, what: str) -> None:
        if status:
            raise LaunchError(f"{what}: cuBLAS status {status}")


@lru_cache(maxsize=1)
def cublas() -> Cublas:
    return Cublas()


def _loaded() -> ctypes.CDLL:
    for name in _NAMES:
        try:
            return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        except OSError:
            continue
    raise BackendUnavailable(f"none of {', '.join(_NAMES)} is loaded: a graph cannot hold this product")
