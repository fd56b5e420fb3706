"""Kernels on the CPU: the system compiler's shared libraries, called through ctypes, OpenMP inside."""

from __future__ import annotations

import ctypes
import platform
import threading
from functools import lru_cache
from pathlib import Path

from .. import forks, settings
from ..codegen.geometry import Device, Kernel
from ..codegen.instantiate import Source
from ..compile import cxx
from ..errors import LaunchError
from . import openmp
from .base import CpuEntry, Launch, operands_of, unscaled_arguments


class CpuBackend:
    """Backend of the CPU: all cores that this process may use."""

    name = "cpu"

    def __init__(self) -> None:
        self.device = Device(
            "cpu",
            _cpu_name(),
            platform.machine(),
            multiprocessors=settings.current().threads,
            vector_bytes=_vector_bytes(),
            l2_bytes=1 << 20,
        )

    def prepare(self, kernel: Kernel) -> Launch:
        entry = cxx.compile_cpu(kernel.source)
        with forks.postponed():
            library = ctypes.CDLL(str(entry.binary))
        return CpuLaunch(library, kernel)

    def log(self, source: Source) -> str:
        return cxx.compile_cpu(source).log

    def synchronize(self, stream: int = 0) -> None:
        """CPU kernels are done when they return."""


class CpuLaunch:
    """A loaded kernel: call it with operand addresses and scalars."""

    def __init__(self, library: ctypes.CDLL, kernel: Kernel) -> None:
        self._kernel, self._library = kernel, library
        self._pack = kernel.source.packing.pack_into
        library.kernel.argtypes = [ctypes.c_void_p]
        self._function = openmp.forkable(library)
        self._local = threading.local()

    def __call__(self, pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
        try:
            buffer, address, partials = self._local.record
        except AttributeError:
            buffer, address, partials = self._first_call()
        self._pack(buffer, 0, *pointers, partials, 0, *self._kernel.fixed, *scalars)
        status = self._function(address)
        if status:
            raise LaunchError(f"the CPU kernel returned {status}")

    @property
    def entry(self) -> CpuEntry | None:
        """The launch as data; None where a forked thread may have to hand its kernels to another one."""
        if isinstance(self._function, openmp.Handed):
            return None
        address = ctypes.cast(self._library.kernel, ctypes.c_void_p).value or 0
        kernel = self._kernel
        return CpuEntry(
            "cpu", address, unscaled_arguments(kernel), operands_of(kernel), kernel.geometry.partial_bytes
        )

    def _first_call(self) -> tuple[ctypes.Array[ctypes.c_char], int, int]:
        buffer = ctypes.create_string_buffer(self._kernel.source.packing.size)
        scratch = ctypes.create_string_buffer(self._kernel.geometry.partial_bytes + 64)
        partials = -(-ctypes.addressof(scratch) // 64) * 64
        self._local.scratch = scratch
        self._local.record = (buffer, ctypes.addressof(buffer), partials)
        return self._local.record  # type: ignore[no-any-return]


def _cpu_name() -> str:
    for line in _cpuinfo():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def _vector_bytes() -> int:
    flags = next((line for line in _cpuinfo() if line.startswith(("flags", "Features"))), "")
    return 64 if "avx512f" in flags else 32 if "avx2" in flags else 16


@lru_cache(maxsize=1)
def backend() -> CpuBackend:
    return CpuBackend()


def unavailable() -> str | None:
    """Why compiled CPU kernels cannot be used here, or None if they can."""
    return cxx.unavailable()


def can_compile() -> bool:
    """Whether a compiler is here; without one, kernels may still come from a cache that was copied."""
    return cxx.available() is None


def is_ready(source: Source) -> bool:
    """Whether the cache holds a kernel."""
    return cxx.is_cached(source)
