"""Launches captured as CUDA graphs: a sequence that comes again costs the host one call."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from ctypes import byref, c_int, c_void_p

from ...backends.cuda import CudaBackend

_RELAXED = 2  # mode of a capture
_GRAPHS = 4  # kept, for as many pairs of x and out


class Captured:
    """One graph, ready to be launched again and again."""

    def __init__(self, backend: CudaBackend, launch: Callable[[int], None]) -> None:
        """Capture what `launch` launches on a stream of its own."""
        lib, check = self._lib, self._check = backend.driver.lib, backend.driver.check
        self._graph, self._executable, stream = c_void_p(), c_void_p(), c_void_p()
        before = backend.driver.current_context()  # of the caller, for whom another device may be current
        backend.driver.make_current(backend.device.ordinal)
        try:
            check(lib.cuStreamCreate(byref(stream), 1), "cuStreamCreate")
            check(lib.cuStreamBeginCapture_v2(stream, _RELAXED), "cuStreamBeginCapture")
            try:
                launch(stream.value or 0)
            finally:
                status = lib.cuStreamEndCapture(stream, byref(self._graph))
                lib.cuStreamDestroy_v2(stream)
            check(status, "cuStreamEndCapture")
            flags = ctypes.c_ulonglong(0)
            check(lib.cuGraphInstantiateWithFlags(byref(self._executable), self._graph, flags), "cuGraphInstantiate")
        finally:
            if before.value:
                backend.driver.restore(before)

    def __call__(self, stream: int) -> None:
        self._check(self._lib.cuGraphLaunch(self._executable, c_void_p(stream)), "cuGraphLaunch")

    def destroy(self) -> None:
        """Give the graph up; one that is still running ends first."""
        self._lib.cuGraphExecDestroy(self._executable)
        self._lib.cuGraphDestroy(self._graph)


class Graphs:
    """Launches captured as graphs, the last few by their addresses."""

    def __init__(self, backend: CudaBackend, patient: bool = False) -> None:
        """`patient`: addresses are captured when they come for the second time."""
        self._backend, self._patient = backend, patient
        self._kept: OrderedDict[Hashable, Captured | None] = OrderedDict()
        self._lock = threading.Lock()  # graphs that make room for others

    def capturing(self, stream: int) -> bool:
        """A caller's own capture takes the launches as they are."""
        flag = c_int()
        self._backend.driver.lib.cuStreamIsCapturing(c_void_p(stream), byref(flag))
        return bool(flag.value)

    def run(self, key: Hashable, launch: Callable[[int], None], stream: int) -> None:
        """Launch the graph of these addresses."""
        with self._lock:
            graph = self._kept.get(key)
            if graph is None and (key in self._kept or not self._patient):
                graph = Captured(self._backend, launch)
            self._kept[key] = graph
            self._kept.move_to_end(key)
            if len(self._kept) > _GRAPHS:
                gone = self._kept.popitem(last=False)[1]
                if gone is not None:
                    gone.destroy()
            if graph is not None:
                graph(stream)
        if graph is None:
            launch(stream)
