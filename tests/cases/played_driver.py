"""A CUDA driver played by host memory and the emulator, so that everything the calibration of a GPU does around its
kernels (operands, checks, graphs, bookkeeping) runs on a machine without one."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mansard.backends.emulated import EmulatedBackend
from mansard.codegen.geometry import Kernel


def _number(value: Any) -> int:
    return int(getattr(value, "value", value) or 0)


class PlayedLibrary:
    """The driver's functions that the calibration calls; streams, graphs and memory are objects of this process."""

    def __init__(self) -> None:
        self.capture: list[Callable[[], None]] | None = None
        self.graph: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        assert name in ("cuMemFree_v2", "cuGraphExecDestroy", "cuGraphDestroy", "cuStreamDestroy_v2"), name
        return lambda *_: 0

    def cuMemcpyDtoH_v2(self, to: Any, source: Any, size: Any) -> int:
        ctypes.memmove(_number(to), _number(source), _number(size))
        return 0

    def cuMemsetD8_v2(self, address: Any, value: int, size: Any) -> int:
        ctypes.memset(_number(address), value, _number(size))
        return 0

    def cuMemGetInfo_v2(self, free: Any, total: Any) -> int:
        free._obj.value = total._obj.value = 1 << 34
        return 0

    def cuStreamCreate(self, stream: Any, flags: Any) -> int:
        stream._obj.value = 77
        return 0

    def cuStreamBeginCapture_v2(self, stream: Any, mode: int) -> int:
        self.capture = []
        return 0

    def cuStreamEndCapture(self, stream: Any, graph: Any) -> int:
        self.graph, self.capture, graph._obj.value = self.capture or [], None, 5
        return 0

    def cuGraphInstantiateWithFlags(self, executable: Any, graph: Any, flags: Any) -> int:
        executable._obj.value = 6
        return 0

    def cuGraphLaunch(self, executable: Any, stream: Any) -> int:
        for call in self.graph:
            call()
        return 0

    def cuLaunchKernel(self, *arguments: Any) -> int:
        assert len(arguments) == 11
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, ordinal: int) -> int:
        value._obj.value = 1000
        return 0

    def cuDeviceGetPCIBusId(self, *_: Any) -> int:
        return 0


class PlayedDriver:
    """What `cuda_driver.Driver` offers, over the library above."""

    def __init__(self) -> None:
        self.lib = PlayedLibrary()
        self._memory: list[Any] = []

    def make_current(self, ordinal: int) -> None: ...

    def check(self, status: int, what: str) -> None:
        assert status == 0, what

    def allocate(self, size: int) -> int:
        self._memory.append(np.zeros(size + 128, np.uint8))
        return -(-self._memory[-1].ctypes.data // 128) * 128

    def version(self) -> str:
        return "13.0"

    def event(self) -> list[float]:
        return [0.0]

    def record(self, event: list[float], stream: int = 0) -> None:
        event[0] = time.perf_counter()

    def elapsed(self, begin: list[float], end: list[float]) -> float:
        return max(end[0] - begin[0], 1e-9)


class PlayedLaunch:
    """A launch of the emulator that a capture can hold back."""

    def __init__(self, library: PlayedLibrary, kernel: Kernel, launch: Any) -> None:
        self.kernel, self.function, self._library, self._launch = kernel, ctypes.c_void_p(1), library, launch

    def __call__(self, pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
        if self._library.capture is None:
            self._launch(pointers, scalars, stream)
        else:
            self._library.capture.append(lambda: self._launch(pointers, scalars, stream))


class PlayedBackend:
    """A GPU of two multiprocessors for `calibrate`."""

    name = "cuda"

    def __init__(self) -> None:
        self._emulated = EmulatedBackend(2)
        self.device = replace(self._emulated.device, l2_bytes=1 << 16)
        self.driver = PlayedDriver()

    def prepare(self, kernel: Kernel) -> PlayedLaunch:
        return PlayedLaunch(self.driver.lib, kernel, self._emulated.prepare(kernel))

    def synchronize(self, stream: int = 0) -> None: ...

    def hold(self, seconds: float, stream: int = 0) -> None: ...
