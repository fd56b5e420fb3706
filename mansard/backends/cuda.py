"""Kernels on NVIDIA GPUs: NVRTC's cubins, launched with prepared argument buffers on the caller's stream.

A launch costs one `pack_into`, one capture query and one driver call. Argument buffers belong to a thread, because
ctypes lets other threads run while the driver reads them.
"""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_int, c_uint, c_void_p
from functools import lru_cache

from ..codegen.geometry import Device, Kernel
from ..codegen.instantiate import Source
from ..compile import nvrtc
from .base import Launch
from .cuda_driver import _INVALID_CONTEXT, Driver, driver

_COUNTER_BYTES = 1024  # COUNTERS words of mansard/reduce.cuh
_PER_THREAD_STREAM = 2


class CudaBackend:
    """One GPU."""

    name = "cuda"

    def __init__(self, ordinal: int = 0) -> None:
        self.driver = driver()
        self.device: Device = self.driver.device(ordinal)
        self.workspaces = Workspaces(self.driver)

    def prepare(self, kernel: Kernel) -> Launch:
        self.driver.make_current(self.device.ordinal)
        entry = nvrtc.compile_cuda(kernel.source, self.device.arch)
        function = self.driver.load(entry.binary.read_bytes(), kernel.geometry.shared_bytes)
        return CudaLaunch(self, kernel, function)

    def log(self, source: Source) -> str:
        return nvrtc.compile_cuda(source, self.device.arch).log

    def synchronize(self, stream: int = 0) -> None:
        self.driver.synchronize(stream)


class CudaLaunch:
    """A loaded kernel with its geometry: call it with operand addresses, scalars and a stream handle."""

    def __init__(self, backend: CudaBackend, kernel: Kernel, function: c_void_p) -> None:
        self.backend, self.kernel, self.function = backend, kernel, function
        self._fixed = kernel.fixed
        self._pack = kernel.source.packing.pack_into
        self._local = threading.local()
        lib = backend.driver.lib
        cooperative = kernel.geometry.cooperative and kernel.geometry.grid[0] > 1
        self._launch = lib.cuLaunchCooperativeKernel if cooperative else lib.cuLaunchKernel
        self._extra = () if cooperative else (None,)
        self._capturing = lib.cuStreamIsCapturing

    def __call__(self, pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
        local = self._local
        try:
            buffer, workspace, arguments, handle, flag, flag_at = local.calls[stream]
        except (AttributeError, KeyError):
            buffer, workspace, arguments, handle, flag, flag_at = self._first_call(stream)
        self._capturing(handle, flag_at)
        if flag.value:  # a graph may run beside later work of this stream: it gets memory of its own
            workspace = self.backend.workspaces.get(self.kernel, stream, self.backend.driver.capture_id(handle))
        self._pack(buffer, 0, *pointers, *workspace, *self._fixed, *scalars)
        status = self._launch(*arguments)
        if status:
            self._failed(status, arguments)

    def _first_call(self, stream: int) -> tuple:  # type: ignore[type-arg]
        buffer = ctypes.create_string_buffer(self.kernel.source.packing.size)
        parameters = (c_void_p * 1)(ctypes.addressof(buffer))
        grid, block = self.kernel.geometry.grid, self.kernel.geometry.block
        handle = c_void_p(stream)
        arguments = (
            self.function,
            *map(c_uint, grid),
            *map(c_uint, (block, 1, 1)),
            c_uint(self.kernel.geometry.shared_bytes),
            handle,
            parameters,
            *self._extra,
        )
        workspace = self.backend.workspaces.get(self.kernel, stream, 0)
        flag = c_int()
        record = (buffer, workspace, arguments, handle, flag, byref(flag))
        if not hasattr(self._local, "calls"):
            self._local.calls = {}
        self._local.calls[stream] = record
        return record

    def _failed(self, status: int, arguments: tuple) -> None:  # type: ignore[type-arg]
        if status == _INVALID_CONTEXT:  # a thread that has not used the GPU yet, or another device is current
            self.backend.driver.make_current(self.backend.device.ordinal)
            status = self._launch(*arguments)
        geometry = self.kernel.geometry
        self.backend.driver.check(status, f"launch of {geometry.grid} blocks of {geometry.block} threads")


class Workspaces:
    """Scratch memory per stream. Work on a stream is ordered, so all kernels of a stream may share one piece; a
    captured graph has its own. Pieces only grow and are never freed: launches hold their addresses."""

    def __init__(self, owner: Driver) -> None:
        self._driver = owner
        self._lock = threading.Lock()
        self._partials: dict[object, tuple[int, int]] = {}
        self._sums: dict[object, tuple[int, int]] = {}

    def get(self, kernel: Kernel, stream: int, capture: int) -> tuple[int, int]:
        """Addresses of the partial sums (any content) and of the counters with the global sums (zero)."""
        key: object = ("graph", capture) if capture else stream
        if key == _PER_THREAD_STREAM:
            key = ("thread", threading.get_ident())
        geometry = kernel.geometry
        with self._lock:
            partials = self._piece(self._partials, key, geometry.partial_bytes)
            sums = self._piece(self._sums, key, _COUNTER_BYTES + geometry.sum_bytes)
        return partials, sums

    def _piece(self, pieces: dict[object, tuple[int, int]], key: object, size: int) -> int:
        address, held = pieces.get(key, (0, 0))
        if size > held:
            held = max(1 << (size - 1).bit_length(), 1 << 16)
            address = self._driver.allocate(held)
            pieces[key] = (address, held)
        return address


@lru_cache(maxsize=16)
def backend(ordinal: int = 0) -> CudaBackend:
    """The backend of GPU `ordinal`; raises BackendUnavailable with the remedy where it cannot be had."""
    return CudaBackend(ordinal)


def unavailable() -> str | None:
    """Why CUDA cannot be used here, or None if it can."""
    from ..errors import BackendUnavailable

    try:
        driver()
    except BackendUnavailable as error:
        return str(error)
    return nvrtc.available()
