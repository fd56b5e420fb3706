"""Kernels on NVIDIA GPUs: NVRTC's cubins, launched with prepared argument buffers on the caller's stream.

A launch costs three addresses, one capture query and one driver call. Argument buffers belong to a thread, because
ctypes lets other threads run while the driver reads them.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from ctypes import byref, c_int, c_uint, c_void_p
from functools import lru_cache, partial
from typing import Any

from ..codegen.geometry import Device, Kernel
from ..codegen.instantiate import Source
from ..compile import nvrtc
from ..errors import BackendUnavailable, CudaAfterFork
from .base import CudaEntry, Launch, operands_of, unscaled_arguments
from .cuda_driver import Driver, driver, within

_COUNTER_BYTES = 1024  # COUNTERS words of mansard/gpu/reduce.cuh
_PER_THREAD_STREAM = 2
_INVALID_CONTEXT, _INVALID_HANDLE = 201, 400
_HOLD = """extern "C" __global__ void kernel(long long nanoseconds) {
  long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - begin < nanoseconds);
}
"""


class CudaBackend:
    """Backend of one GPU: loads cubins and launches them through the driver."""

    name = "cuda"

    def __init__(self, ordinal: int = 0) -> None:
        self.driver = driver()
        self.device: Device = self.driver.device(ordinal)
        self.workspaces = Workspaces(self.driver)
        self._functions: dict[tuple[str, int], c_void_p] = {}
        self._hold: c_void_p | None = None

    def prepare(self, kernel: Kernel) -> Launch:
        self.driver.make_current(self.device.ordinal)
        key = (kernel.source.text, kernel.geometry.shared_bytes)
        if key not in self._functions:  # a module is loaded once, whatever the number of plans that use it
            entry = nvrtc.compile_cuda(kernel.source, self.device.arch)
            self._functions[key] = self.driver.load(entry.binary.read_bytes(), kernel.geometry.shared_bytes)
        return CudaLaunch(self, kernel, self._functions[key])

    def log(self, source: Source) -> str:
        return nvrtc.compile_cuda(source, self.device.arch).log

    def synchronize(self, stream: int = 0) -> None:
        self.driver.synchronize(stream)

    def hold(self, seconds: float, stream: int = 0) -> None:
        """Keep a stream busy for a while: what is launched meanwhile starts without waiting for the host."""
        if self._hold is None:
            self.driver.make_current(self.device.ordinal)
            entry = nvrtc.compile_cuda(Source("cuda", _HOLD, ()), self.device.arch)
            self._hold = self.driver.load(entry.binary.read_bytes(), 0)
        duration, one = ctypes.c_longlong(int(seconds * 1e9)), c_uint(1)
        parameters = (c_void_p * 1)(ctypes.addressof(duration))
        status = self.driver.lib.cuLaunchKernel(
            self._hold, one, one, one, one, one, one, c_uint(0), c_void_p(stream), parameters, None
        )
        self.driver.check(status, "hold")


class _Call:
    """Buffers that one thread reuses from launch to launch on one stream."""

    __slots__ = ("arguments", "buffer", "capturing", "flag", "scalars", "stream", "workspace")

    def __init__(self, launch: CudaLaunch, stream: int) -> None:
        kernel, driver = launch.kernel, launch.backend.driver
        geometry = kernel.geometry
        handle, flag = c_void_p(stream), c_int()
        self.buffer = ctypes.create_string_buffer(kernel.source.packing.size)
        parameters = (c_void_p * 1)(ctypes.addressof(self.buffer))
        sizes = (*geometry.grid, geometry.block, 1, 1, geometry.shared_bytes)
        extra = () if launch.cooperative else (None,)
        self.arguments = (launch.function, *map(c_uint, sizes), handle, parameters, *extra)
        self.capturing = partial(driver.lib.cuStreamIsCapturing, handle, byref(flag))
        self.flag, self.stream = flag, handle
        self.workspace = launch.backend.workspaces.get(kernel, stream, 0)
        self.scalars: tuple[float, ...] | None = None  # those that lie in the buffer


class CudaLaunch:
    """A loaded kernel with its geometry: call it with operand addresses, scalars and a stream handle."""

    def __init__(self, backend: CudaBackend, kernel: Kernel, function: c_void_p) -> None:
        self.backend, self.kernel, self.function = backend, kernel, function
        self.cooperative = kernel.geometry.cooperative and kernel.geometry.grid[0] > 1
        lib = backend.driver.lib
        self._launch = lib.cuLaunchCooperativeKernel if self.cooperative else lib.cuLaunchKernel
        self._pack = kernel.source.packing.pack_into
        self._pack_pointers = struct.Struct(f"={operands_of(kernel)}Q").pack_into
        self._local = threading.local()

    def __call__(self, pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
        try:
            call = self._local.calls[stream]
        except (AttributeError, KeyError):
            call = self._first_call(stream)
        call.capturing()
        if call.flag.value or call.scalars is not scalars:
            self._repack(call, pointers, scalars, stream)
        else:
            self._pack_pointers(call.buffer, 0, *pointers)
        status = self._launch(*call.arguments)
        if status:
            self._failed(status, call.arguments)

    @property
    def entry(self) -> CudaEntry:
        """The launch as data."""
        kernel, geometry = self.kernel, self.kernel.geometry
        launch, is_capturing = (
            ctypes.cast(one, c_void_p).value or 0 for one in (self._launch, self.backend.driver.lib.cuStreamIsCapturing)
        )
        return CudaEntry(
            "cuda", launch, is_capturing, self.function.value or 0,
            (*geometry.grid, geometry.block, geometry.shared_bytes), unscaled_arguments(kernel), operands_of(kernel),
            self.cooperative, lambda stream: self.backend.workspaces.get(kernel, stream, 0),
        )  # fmt: skip

    def _first_call(self, stream: int) -> _Call:
        if not hasattr(self._local, "calls"):
            self._local.calls = {}
        call = self._local.calls[stream] = _Call(self, stream)
        return call

    def _repack(self, call: _Call, pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
        workspace, call.scalars = call.workspace, scalars
        if call.flag.value:  # a graph may run beside later work of this stream: it gets memory of its own
            workspace = self.backend.workspaces.get(self.kernel, stream, self.backend.driver.capture_id(call.stream))
            call.scalars = None
        self._pack(call.buffer, 0, *pointers, *workspace, *self.kernel.fixed, *scalars)

    def _failed(self, status: int, arguments: tuple[Any, ...]) -> None:
        """A thread that has not used the GPU yet has no context, and another device's may be current: launch once more
        in the right one, and leave the caller's as it was."""
        driver = self.backend.driver
        if status in (_INVALID_CONTEXT, _INVALID_HANDLE):
            with within(driver, self.backend.device.ordinal):
                status = self._launch(*arguments)
        geometry = self.kernel.geometry
        driver.check(status, f"launch of {geometry.grid} blocks of {geometry.block} threads")


class Workspaces:
    """Scratch memory per stream. Work on a stream is ordered, so all kernels of a stream may share one piece; a stream
    of a captured graph has its own, which others take over when the graph is gone. Pieces only grow and are never
    freed: launches hold their addresses."""

    def __init__(self, owner: Driver) -> None:
        self._driver = owner
        self._lock = threading.Lock()
        self._pieces: dict[object, dict[str, tuple[int, int]]] = {}  # key -> kind -> address, bytes
        self._graphs: dict[object, c_void_p] = {}  # key -> what tells that the graph is gone
        self._idle: list[dict[str, tuple[int, int]]] = []

    def get(self, kernel: Kernel, stream: int, capture: int) -> tuple[int, int]:
        """Addresses of the partial sums (any content) and of the counters with the global sums (zero)."""
        thread = threading.get_ident() if stream == _PER_THREAD_STREAM else 0
        key = (stream, thread, capture)
        geometry = kernel.geometry
        with self._lock:
            if key not in self._pieces:
                self._pieces[key] = self._begin_graph(key, stream) if capture else {}
            partials = self._piece(key, "partials", geometry.partial_bytes)
            sums = self._piece(key, "sums", _COUNTER_BYTES + geometry.sum_bytes)
        return partials, sums

    def _begin_graph(self, key: object, stream: int) -> dict[str, tuple[int, int]]:
        """Return the workspace of a graph that no longer exists, if there is one."""
        for gone in [other for other, sign in self._graphs.items() if self._driver.has_ended(sign)]:
            del self._graphs[gone]
            self._idle.append(self._pieces.pop(gone))
        sign = self._driver.end_of_capture(c_void_p(stream))
        if sign is not None:
            self._graphs[key] = sign
        return self._idle.pop() if self._idle else {}

    def _piece(self, key: object, kind: str, size: int) -> int:
        address, held = self._pieces[key].get(kind, (0, 0))
        if size > held:
            held = max(1 << (size - 1).bit_length(), 1 << 16)
            address = self._driver.allocate(held)
            self._pieces[key][kind] = (address, held)
        return address


@lru_cache(maxsize=16)
def backend(ordinal: int = 0) -> CudaBackend:
    """The backend of GPU `ordinal`; raises BackendUnavailable with the remedy where it cannot be had."""
    made = CudaBackend(ordinal)
    os.register_at_fork(after_in_child=_refuse_launches)
    return made


def _refuse_launches() -> None:
    """In a forked child every launch, of plans made before the fork too, raises `CudaAfterFork`. The class changes, and
    not each launch, so that a launch in the parent asks nothing."""

    def refuse(self: CudaLaunch, pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
        raise CudaAfterFork

    CudaLaunch.__call__ = refuse  # type: ignore[method-assign]
    backend.cache_clear()


def unavailable() -> str | None:
    """Why CUDA cannot be used here, or None if it can."""
    try:
        driver()
    except BackendUnavailable as error:
        return str(error)
    return nvrtc.available()
