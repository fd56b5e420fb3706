"""cuSOLVER through ctypes: LU factors of a few matrices side by side, each on a stream and by a handle of its own.

One matrix of a few hundred rows leaves most of a GPU idle, and array libraries call cuSOLVER for one after the other.
The library is the one that the process has loaded already.
"""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_int, c_void_p
from functools import lru_cache
from typing import Any

from ..errors import BackendUnavailable, LaunchError
from .cuda_driver import loaded_library

_NAMES = ("libcusolver.so.12", "libcusolver.so.11")
_MATRIX = (c_void_p, c_int)  # where it is, and its leading dimension
_ARGUMENTS = {
    "getrf_bufferSize": (c_void_p, c_int, c_int, *_MATRIX, c_void_p),
    "getrf": (c_void_p, c_int, c_int, *_MATRIX, c_void_p, c_void_p, c_void_p),
    "getrs": (c_void_p, c_int, c_int, c_int, *_MATRIX, c_void_p, *_MATRIX, c_void_p),
}


class Cusolver:
    """LU of square matrices that lie column after column, int32 pivots from one. Handles belong to a thread."""

    def __init__(self, lib: Any = None) -> None:
        self.lib = loaded_library(_NAMES) if lib is None else lib
        self._local = threading.local()

    def handle(self, device: int, index: int, stream: int) -> c_void_p:
        """Handle number `index` of the current device, which works on a stream from now on."""
        held: dict[tuple[int, int], c_void_p] = vars(self._local).setdefault("handles", {})
        if (device, index) not in held:
            made = c_void_p()
            self._check(self.lib.cusolverDnCreate(byref(made)), "cusolverDnCreate")
            held[device, index] = made
        self._check(self.lib.cusolverDnSetStream(held[device, index], c_void_p(stream)), "cusolverDnSetStream")
        return held[device, index]

    def workspace(self, handle: c_void_p, letter: str, n: int, address: int) -> int:
        """Numbers of workspace that one matrix needs."""
        size = c_int()
        self._call(letter, "getrf_bufferSize", handle, n, n, address, n, ctypes.addressof(size))
        return max(1, size.value)

    def getrf(self, handle: c_void_p, letter: str, n: int, A: int, work: int, pivots: int, info: int) -> None:
        self._call(letter, "getrf", handle, n, n, A, n, work, pivots, info)

    def getrs(
        self, handle: c_void_p, letter: str, n: int, columns: int, A: int, pivots: int, B: int, info: int
    ) -> None:
        self._call(letter, "getrs", handle, 0, n, columns, A, n, pivots, B, n, info)

    def _call(self, letter: str, name: str, *arguments: Any) -> None:
        routine = getattr(self.lib, f"cusolverDn{letter.upper()}{name}")
        if routine.argtypes is None:
            routine.argtypes = _ARGUMENTS[name]
        self._check(routine(*arguments), f"cusolverDn{letter.upper()}{name}")

    @staticmethod
    def _check(status: int, what: str) -> None:
        if status:
            raise LaunchError(f"{what}: cuSOLVER status {status}")


@lru_cache(maxsize=1)
def _cusolver() -> Cusolver:
    return Cusolver()


def cusolver() -> Cusolver | None:
    """The process's cuSOLVER; None where it has loaded none."""
    try:
        return _cusolver()
    except BackendUnavailable:
        return None
