"""CUDA graphs: a fixed sequence of launches that is recorded once and then started by one call.

An iteration of conjugate gradients is a dozen launches of a few microseconds each. Python needs longer to issue them
than the device needs to run them. Recorded as a graph, they follow one another without the host.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .arrays import Arrays

Action = Callable[[], None]


def replayed(function: Action, arrays: Arrays) -> Action:
    """A callable that does what `function` does, as a graph from its second call on where the arrays live on a GPU.

    `function` takes nothing, reads and writes arrays that stay, and waits for nothing. Its first call compiles kernels
    and fills the pool of memory. Temporary arrays come from a pool of their own: nobody else gets that memory. What
    cannot be recorded is called as it is, with a warning that says why.
    """
    if not arrays.records_graphs:
        return function
    return _Torch(function, arrays.xp) if arrays.library == "torch" else _Cupy(function, arrays.xp)


class _Replayed:
    """Calls `plain` until `record` has made a graph, then `start`."""

    def __init__(self, function: Action, xp: Any) -> None:
        self.function, self.xp, self.graph, self.calls = function, xp, None, 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == 2:
            try:
                self.record()
            except Exception as error:  # whatever a library raises about launches that cannot be recorded
                warnings.warn(f"not recorded as a CUDA graph: {error}", stacklevel=2)
        if self.graph is None:
            self.plain()
        else:
            self.start()


class _Cupy(_Replayed):
    """Recorded on a stream of its own, started on the current one."""

    def __init__(self, function: Action, cupy: Any) -> None:
        super().__init__(function, cupy)
        self.pool = cupy.cuda.MemoryPool()

    def plain(self) -> None:
        with self.xp.cuda.using_allocator(self.pool.malloc):
            self.function()

    def record(self) -> None:
        stream = self.xp.cuda.Stream(non_blocking=True)
        with self.xp.cuda.using_allocator(self.pool.malloc), stream:
            stream.begin_capture()
            try:
                self.function()
            finally:
                graph = stream.end_capture()
        self.graph = graph

    def start(self) -> None:
        self.graph.launch(self.xp.cuda.get_current_stream())


class _Torch(_Replayed):
    """PyTorch's own graphs, which have pools of their own."""

    def plain(self) -> None:
        self.function()

    def record(self) -> None:
        graph = self.xp.cuda.CUDAGraph()
        with self.xp.cuda.graph(graph):
            self.function()
        self.graph = graph

    def start(self) -> None:
        self.graph.replay()
