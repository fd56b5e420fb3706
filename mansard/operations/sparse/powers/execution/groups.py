"""Powers by groups of rows that pass through a cache: a launch per group on GPUs, one call on CPUs."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from ctypes import byref, c_int, c_void_p
from typing import Any

import numpy as np

from .....backends.base import Launch
from .....backends.cuda import CudaBackend
from .....kernels.sparse.powers import emit
from ..order.groups import launch_order, range_lag, whole
from .runner import LevelRunner, with_threads

_RELAXED = 2  # mode of a capture
_GRAPHS = 4  # kept, for as many pairs of x and out


class GpuGroups(LevelRunner):
    """On GPUs: one launch per group of rows and power; plainly there is one group."""

    def __init__(self, *arguments: Any, graph: bool = True) -> None:
        super().__init__(*arguments)
        p, rows = self.problem.P, self.problem.ROWS
        if self.choice.execution == "plain":
            self.ranges, order = whole(rows), [(0, k) for k in range(1, p + 1)]
        else:
            self.ranges = self.choice.ranges
            order = launch_order(self.ordered, self.ranges, p)
        C, block = self.sell.C, self.choice.config.BLOCK
        blocks = -(-(np.diff(self.ranges) + C - 1) // block) * block
        launches = {int(size): self._prepare(int(size)) for size in np.unique(blocks)}
        self.tasks = [
            (launches[int(blocks[group])], (float(self.ranges[group]), float(self.ranges[group + 1]), float(k)))
            for group, k in order
        ]
        self.graphs = Graphs(self.backend) if graph and len(self.tasks) > p and self.backend.name == "cuda" else None

    def _prepare(self, rows: int) -> Launch:
        kernel = emit.kernel(self.problem, self.choice.config, self.backend.device, (rows,))
        return self.backend.prepare(kernel)  # type: ignore[no-any-return]

    def __call__(self, x: int, vectors: int, result: int, copy: int, stream: int) -> None:
        pointers = (*self.matrix, x, vectors, result)

        def launch(on: int) -> None:
            for task, scalars in self.tasks:
                task(pointers, scalars, on)

        if self.graphs is None or self.graphs.capturing(stream):
            launch(stream)
        else:
            self.graphs.run(pointers, launch, stream)


class Graphs:
    """Launches captured as graphs, the last few by their addresses; a stream of their own is captured."""

    def __init__(self, backend: CudaBackend) -> None:
        self._driver, self._ordinal = backend.driver, backend.device.ordinal
        self._kept: OrderedDict[Hashable, tuple[c_void_p, c_void_p]] = OrderedDict()
        self._lock = threading.Lock()  # one stream to capture on, and graphs that make room for others
        self._stream = c_void_p()
        self._driver.make_current(self._ordinal)
        self._driver.check(self._driver.lib.cuStreamCreate(byref(self._stream), 1), "cuStreamCreate")

    def capturing(self, stream: int) -> bool:
        """A caller's own capture takes the launches as they are."""
        flag = c_int()
        self._driver.lib.cuStreamIsCapturing(c_void_p(stream), byref(flag))
        return bool(flag.value)

    def run(self, key: Hashable, launch: Callable[..., None], stream: int) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = self._capture(launch)
                if len(self._kept) > _GRAPHS:
                    self._destroy(self._kept.popitem(last=False)[1])
            self._kept.move_to_end(key)
            status = self._driver.lib.cuGraphLaunch(self._kept[key][1], c_void_p(stream))
        self._driver.check(status, "cuGraphLaunch")

    def _capture(self, launch: Callable[..., None]) -> tuple[c_void_p, c_void_p]:
        lib, check, captured, executable = self._driver.lib, self._driver.check, c_void_p(), c_void_p()
        check(lib.cuStreamBeginCapture_v2(self._stream, _RELAXED), "cuStreamBeginCapture")
        launch(self._stream.value)
        check(lib.cuStreamEndCapture(self._stream, byref(captured)), "cuStreamEndCapture")
        check(lib.cuGraphInstantiateWithFlags(byref(executable), captured, ctypes.c_ulonglong(0)), "cuGraphInstantiate")
        return captured, executable

    def _destroy(self, graph: tuple[c_void_p, c_void_p]) -> None:
        self._driver.lib.cuGraphExecDestroy(graph[1])
        self._driver.lib.cuGraphDestroy(graph[0])


class CpuGroups(LevelRunner):
    """On CPUs: one call of a kernel whose threads go through ranges of rows, one power a lag behind the other."""

    keeps_last = True

    def __init__(self, *arguments: Any, threads: int | None = None) -> None:
        super().__init__(*arguments)
        self.ranges = np.ascontiguousarray(self.choice.ranges, np.int32)
        self.reach = range_lag(self.ordered, self.ranges)[0]
        sizes = (len(self.ranges) - 1, self.choice.lag)
        kernel = emit.kernel(self.problem, self.choice.config, self.backend.device, sizes)
        self.launch = self.backend.prepare(with_threads(kernel, threads))
        self.tables = self.addresses(self.sell.common, self.ranges, self.reach)

    def __call__(self, x: int, vectors: int, result: int, copy: int, stream: int) -> None:
        self.launch((*self.matrix, x, vectors, result, *self.tables), (), stream)
