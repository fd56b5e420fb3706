"""The CUDA driver through ctypes: the few calls Mansard needs, so that neither CuPy nor PyTorch is required to launch.

Frameworks use each device's primary context; so does this module, and it changes nothing about it. A forked child
inherits neither: there, every call raises `CudaAfterFork`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from functools import lru_cache
from typing import Any

from ..codegen.geometry import Device
from ..errors import BackendUnavailable, CudaAfterFork, LaunchError

_ATTRIBUTES = {
    "multiprocessors": 16,
    "l2_bytes": 38,
    "threads_per_multiprocessor": 39,
    "major": 75,
    "minor": 76,
    "shared_per_multiprocessor": 81,
    "registers_per_multiprocessor": 82,
    "shared_per_block": 97,  # with the opt-in attribute
}
_MAX_DYNAMIC_SHARED = 8
_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED

_LIBC = ctypes.CDLL(None)
_LIBC.calloc.restype = c_void_p


@contextmanager
def within(owner: Any, ordinal: int) -> Iterator[None]:
    """A GPU's primary context is this thread's in the block; the context that the caller had is current afterwards."""
    before = owner.current_context()
    owner.make_current(ordinal)
    try:
        yield
    finally:
        if before.value:
            owner.restore(before)


def loaded_library(names: tuple[str, ...], consequence: str = "") -> Any:
    """The first of these shared libraries that the process has loaded already."""
    for name in names:
        try:
            return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        except OSError:
            continue
    raise BackendUnavailable(f"none of {', '.join(names)} is loaded{consequence}")


class LostLibrary:
    """Takes the place of a library that uses CUDA, or of a function of it, in a forked child."""

    def __getattr__(self, name: str) -> Any:
        raise CudaAfterFork

    def __call__(self, *arguments: Any) -> Any:
        raise CudaAfterFork


class Driver:
    """The CUDA driver library, initialised."""

    def __init__(self) -> None:
        self.process = os.getpid()
        try:
            self.lib: Any = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise BackendUnavailable("no NVIDIA driver (libcuda.so.1): GPU arrays cannot be used here") from None
        status = self.lib.cuInit(0)
        if status == _NOT_INITIALIZED:  # what cuInit says in a child of a process that has initialised the driver
            raise CudaAfterFork
        if status:
            raise BackendUnavailable(f"the NVIDIA driver finds no usable GPU ({self.error_name(status)})")
        os.register_at_fork(after_in_child=self._lose)

    def _lose(self) -> None:
        self.lib = LostLibrary()

    def error_name(self, status: int) -> str:
        name = c_char_p()
        self.lib.cuGetErrorName(status, byref(name))
        return name.value.decode() if name.value else f"CUDA error {status}"

    def check(self, status: int, what: str) -> None:
        if status:
            raise LaunchError(f"{what}: {self.error_name(status)}")

    def device_count(self) -> int:
        count = c_int()
        self.check(self.lib.cuDeviceGetCount(byref(count)), "cuDeviceGetCount")
        return count.value

    def device(self, ordinal: int) -> Device:
        handle, name = c_int(), ctypes.create_string_buffer(96)
        self.check(self.lib.cuDeviceGet(byref(handle), ordinal), f"device {ordinal}")
        self.lib.cuDeviceGetName(name, 96, handle)
        facts = {}
        for fact, attribute in _ATTRIBUTES.items():
            value = c_int()
            self.check(self.lib.cuDeviceGetAttribute(byref(value), attribute, handle), fact)
            facts[fact] = value.value
        major, minor = facts.pop("major"), facts.pop("minor")
        # the "a" target has the instructions of exactly this chip
        arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        return Device("cuda", name.value.decode(), arch, ordinal=ordinal, **facts)

    @lru_cache(maxsize=16)  # noqa: B019  the driver lives as long as the process
    def primary_context(self, ordinal: int) -> c_void_p:
        context = c_void_p()
        self.check(self.lib.cuDevicePrimaryCtxRetain(byref(context), ordinal), "cuDevicePrimaryCtxRetain")
        return context

    def make_current(self, ordinal: int) -> None:
        """Bind the device's primary context to this thread, as the frameworks do on first use."""
        self.check(self.lib.cuCtxSetCurrent(self.primary_context(ordinal)), "cuCtxSetCurrent")

    def current_context(self) -> c_void_p:
        """The context of this thread; its value is None if there is none."""
        context = c_void_p()
        self.check(self.lib.cuCtxGetCurrent(byref(context)), "cuCtxGetCurrent")
        return context

    def restore(self, context: c_void_p) -> None:
        self.check(self.lib.cuCtxSetCurrent(context), "cuCtxSetCurrent")

    def fetching(self, ordinal: int) -> tuple[int, ...]:
        """Addresses that the native launcher copies numbers from a GPU to the host with (`native/fetch.hpp`): of
        cuCtxGetCurrent, of the device's context, and of the other functions."""
        names = (
            "cuCtxGetCurrent",
            "cuStreamIsCapturing",
            "cuMemcpyDtoHAsync_v2",
            "cuStreamSynchronize",
            "cuMemHostAlloc",
        )
        current, *others = (ctypes.cast(getattr(self.lib, name), c_void_p).value or 0 for name in names)
        return current, self.primary_context(ordinal).value or 0, *others

    def version(self) -> str:
        value = c_int()
        self.lib.cuDriverGetVersion(byref(value))
        return f"{value.value // 1000}.{value.value % 1000 // 10}"

    def load(self, cubin: bytes, shared_bytes: int) -> c_void_p:
        """The function `kernel` of a cubin, in the current context."""
        module, function = c_void_p(), c_void_p()
        self.check(self.lib.cuModuleLoadData(byref(module), cubin), "cuModuleLoadData")
        self.check(self.lib.cuModuleGetFunction(byref(function), module, b"kernel"), "cuModuleGetFunction")
        if shared_bytes > 48 * 1024:
            status = self.lib.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, c_int(shared_bytes))
            self.check(status, f"{shared_bytes} bytes of shared memory")
        return function

    def blocks_per_multiprocessor(self, function: c_void_p, threads: int, shared_bytes: int) -> int:
        blocks = c_int()
        status = self.lib.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            byref(blocks), function, c_int(threads), c_size_t(shared_bytes)
        )
        self.check(status, "cuOccupancyMaxActiveBlocksPerMultiprocessor")
        return blocks.value

    def allocate(self, size: int) -> int:
        """Zeroed device memory. Works while a stream is being captured, of which it must not become a part."""
        previous = c_int(2)  # relaxed
        self.lib.cuThreadExchangeStreamCaptureMode(byref(previous))
        try:
            address, stream = c_void_p(), c_void_p()
            self.check(self.lib.cuMemAlloc_v2(byref(address), c_size_t(size)), f"workspace of {size} bytes")
            self.check(self.lib.cuStreamCreate(byref(stream), c_uint(1)), "cuStreamCreate")  # does not block others
            self.check(self.lib.cuMemsetD8Async(address, c_int(0), c_size_t(size), stream), "cuMemsetD8Async")
            self.check(self.lib.cuStreamSynchronize(stream), "cuStreamSynchronize")
            self.lib.cuStreamDestroy_v2(stream)
            return int(address.value or 0)
        finally:
            self.lib.cuThreadExchangeStreamCaptureMode(byref(previous))

    def capture_id(self, stream: Any) -> int:
        """The number of the capture the stream takes part in, 0 if none."""
        status, number = c_int(), ctypes.c_ulonglong()
        # cuStreamGetCaptureInfo changed its signature between driver versions; the first one has only these outputs
        code = self.lib.cuStreamGetCaptureInfo_v2(stream, byref(status), byref(number), None, None, None)
        self.check(code, "cuStreamGetCaptureInfo")
        return number.value if status.value else 0

    def end_of_capture(self, stream: Any) -> c_void_p | None:
        """A semaphore that the driver raises when the graph being captured on the stream, and all that was made from
        it, is gone; None where the driver cannot do this. The callback is libc's own `sem_post`: it may be called when
        Python is no more."""
        status, number, graph, watcher = c_int(), ctypes.c_ulonglong(), c_void_p(), c_void_p()
        code = self.lib.cuStreamGetCaptureInfo_v2(stream, byref(status), byref(number), byref(graph), None, None)
        if code or not hasattr(self.lib, "cuUserObjectCreate"):
            return None
        semaphore = c_void_p(_LIBC.calloc(1, c_size_t(64)))
        _LIBC.sem_init(semaphore, 0, 0)
        raise_it = ctypes.cast(_LIBC.sem_post, c_void_p)
        if self.lib.cuUserObjectCreate(byref(watcher), semaphore, raise_it, c_uint(1), c_uint(1)):
            return None
        if self.lib.cuGraphRetainUserObject(graph, watcher, c_uint(1), c_uint(1)):  # the graph has it now, not we
            return None
        return semaphore

    @staticmethod
    def has_ended(semaphore: c_void_p) -> bool:
        """Whether the graph of `end_of_capture` is gone; true once."""
        return bool(_LIBC.sem_trywait(semaphore) == 0)

    def event(self) -> c_void_p:
        handle = c_void_p()
        self.check(self.lib.cuEventCreate(byref(handle), c_uint(0)), "cuEventCreate")
        return handle

    def record(self, event: c_void_p, stream: int = 0) -> None:
        self.check(self.lib.cuEventRecord(event, c_void_p(stream)), "cuEventRecord")

    def wait(self, event: c_void_p) -> None:
        """Block until an event has happened."""
        self.check(self.lib.cuEventSynchronize(event), "cuEventSynchronize")

    def elapsed(self, begin: c_void_p, end: c_void_p) -> float:
        """Seconds between two events, once the second has happened."""
        milliseconds = ctypes.c_float()
        self.wait(end)
        self.check(self.lib.cuEventElapsedTime(byref(milliseconds), begin, end), "cuEventElapsedTime")
        return milliseconds.value * 1e-3

    def synchronize(self, stream: int = 0) -> None:
        self.check(self.lib.cuStreamSynchronize(c_void_p(stream)), "the stream's work")


def driver() -> Driver:
    """The process's driver handle; raises BackendUnavailable or CudaAfterFork, with the remedy, where there is none."""
    found = _initialised()
    if found.process != os.getpid():
        raise CudaAfterFork
    return found


@lru_cache(maxsize=1)
def _initialised() -> Driver:
    return Driver()
