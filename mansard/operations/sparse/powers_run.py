"""Runs powers: from addresses of x and of the results to launches. Vectors are dense and in the matrix' order here."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections import OrderedDict
from ctypes import byref, c_int, c_void_p
from typing import Any

import numpy as np

from ...backends import mailbox
from ...errors import CudaAfterFork, IllegalConfig, LaunchError
from ...kernels.sparse.powers import emit, fit, space, work
from ...plan.problem import Problem
from . import powers_choice
from .powers_choice import Choice
from .reach import host

LIMIT = 4.0  # seconds that a block waits for others before it gives up
_RELAXED = 2  # mode of a capture
_GRAPHS = 4  # kept, for as many pairs of x and out


class Runner:
    """What all executions share: the matrix' addresses, coefficients on the device, work space per stream."""

    def __init__(self, problem: Problem, ordered: Any, choice: Choice, backend: Any, coefficients: Any) -> None:
        self.problem, self.ordered, self.choice, self.backend, self.xp = problem, ordered, choice, backend, ordered.xp
        self.coefficients = self.xp.asarray(coefficients)
        self.itemsize = problem.itemsize
        self.step = problem.ROWS * problem.NVECS
        self._spaces: dict[Any, Any] = {}

    def address(self, array: Any) -> int:
        return int(array.ctypes.data if self.xp is np else array.data.ptr)

    def matrix(self) -> tuple[int, ...]:
        sell = self.ordered.sell
        lengths = 0 if sell.lengths is None else self.address(sell.lengths)
        return (*map(self.address, (sell.buffer, sell.starts, sell.widths)), lengths, self.address(self.coefficients))

    def space(self, name: str, size: int, dtype: str, stream: int) -> int:
        """Memory of this plan on this stream, for one thread: work on a stream is ordered, and a call is several
        launches, between which another thread's may come."""
        key = (name, stream, threading.get_ident())
        if key not in self._spaces:
            self._spaces[key] = self.xp.empty(max(1, size), dtype)
        return self.address(self._spaces[key])

    keeps_last = False  # whether combinations are formed from v_p in memory

    def vectors(self, stream: int) -> int:
        """Room for v_1 .. where the caller has none: up to v_(p-1), or to v_p."""
        every = self.problem.output == "all" or (self.problem.output == "combination" and self.keeps_last)
        count = self.problem.P if every else self.problem.P - 1
        return self.space("vectors", count * self.step, self.problem.dtype, stream)

    def __call__(self, x: int, vectors: int, result: int, copy: int, stream: int) -> None:
        """Launches. `vectors` is where v_1 .. go, `result` what else is asked for; x goes to `copy` if it is not there
        (0: the caller has seen to it)."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises if a launch that is done has failed."""


class Products(Runner):
    """One launch per group of rows and power; plainly there is one group."""

    def __init__(self, *arguments: Any, graph: bool = True) -> None:
        super().__init__(*arguments)
        p, rows = self.problem.P, self.problem.ROWS
        if self.choice.execution == "plain":
            self.ranges, order = np.array([0, rows], np.int32), [(0, k) for k in range(1, p + 1)]
        else:
            self.ranges = self.choice.ranges
            order, self.lag = powers_choice.launch_order(self.ordered, self.ranges, p)
        C, block = self.ordered.sell.C, self.choice.config.BLOCK
        blocks = -(-(np.diff(self.ranges) + C - 1) // block) * block
        launches = {int(size): self._prepare(int(size)) for size in np.unique(blocks)}
        self.tasks = [
            (launches[int(blocks[group])], (float(self.ranges[group]), float(self.ranges[group + 1]), float(k)))
            for group, k in order
        ]
        self.graphs = Graphs(self.backend) if graph and len(self.tasks) > p and self.backend.name == "cuda" else None

    def _prepare(self, rows: int) -> Any:
        kernel = emit.kernel(self.problem, self.choice.config, self.backend.device, (rows,))
        return self.backend.prepare(kernel)

    def __call__(self, x: int, vectors: int, result: int, copy: int, stream: int) -> None:
        pointers = (*self.matrix(), x, vectors, result)

        def launch(on: int) -> None:
            for task, scalars in self.tasks:
                task(pointers, scalars, on)

        if self.graphs is None or self.graphs.capturing(stream):
            launch(stream)
        else:
            self.graphs.run(pointers, launch, stream)


class Graphs:
    """Launches captured as graphs, the last few by their addresses; a stream of their own is captured."""

    def __init__(self, backend: Any) -> None:
        self._driver, self._ordinal = backend.driver, backend.device.ordinal
        self._kept: OrderedDict[Any, tuple[c_void_p, c_void_p]] = OrderedDict()
        self._lock = threading.Lock()  # one stream to capture on, and graphs that make room for others
        self._stream = c_void_p()
        self._driver.make_current(self._ordinal)
        self._driver.check(self._driver.lib.cuStreamCreate(byref(self._stream), 1), "cuStreamCreate")

    def capturing(self, stream: int) -> bool:
        """A caller's own capture takes the launches as they are."""
        flag = c_int()
        self._driver.lib.cuStreamIsCapturing(c_void_p(stream), byref(flag))
        return bool(flag.value)

    def run(self, key: Any, launch: Any, stream: int) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = self._capture(launch)
                if len(self._kept) > _GRAPHS:
                    self._destroy(self._kept.popitem(last=False)[1])
            self._kept.move_to_end(key)
            status = self._driver.lib.cuGraphLaunch(self._kept[key][1], c_void_p(stream))
        self._driver.check(status, "cuGraphLaunch")

    def _capture(self, launch: Any) -> tuple[c_void_p, c_void_p]:
        lib, check, captured, executable = self._driver.lib, self._driver.check, c_void_p(), c_void_p()
        check(lib.cuStreamBeginCapture_v2(self._stream, _RELAXED), "cuStreamBeginCapture")
        launch(self._stream.value)
        check(lib.cuStreamEndCapture(self._stream, byref(captured)), "cuStreamEndCapture")
        check(lib.cuGraphInstantiateWithFlags(byref(executable), captured, ctypes.c_ulonglong(0)), "cuGraphInstantiate")
        return captured, executable

    def _destroy(self, graph: tuple[c_void_p, c_void_p]) -> None:
        self._driver.lib.cuGraphExecDestroy(graph[1])
        self._driver.lib.cuGraphDestroy(graph[0])


class Passes(Runner):
    """One persistent launch, or a few of them where powers are many, after one that prefills."""

    def __init__(self, *arguments: Any, limit: float = LIMIT) -> None:
        super().__init__(*arguments)
        self.limit = limit
        device, configs = self.backend.device, self.choice.passes
        self.flags = emit.flags(self.problem, device)
        several = len(configs) > 1
        self.keeps_last = several
        self.combine = several and self.problem.output == "combination"
        self.launches, first = [], 0
        for i, config in enumerate(configs):
            powers = sum(work.retained(config.RETAIN))
            output = self.problem.output if i + 1 == len(configs) and not self.combine else "all"
            part = self.problem.replace(P=powers, output=output)
            reach = host(self.ordered.reach(self.ordered.sell.C * config.TILE))
            self._check_legal(part, config, reach)
            sizes = (fit.far(reach, config, device), int(limit * 1e9))
            self.launches.append((self.backend.prepare(emit.kernel(part, config, device, sizes)), first))
            first += powers
        if first != self.problem.P:
            raise IllegalConfig(f"powers: RETAIN={configs[0].RETAIN} are not the {self.problem.P} powers")
        self.fills = [self.backend.prepare(emit.fill(self.problem, device, copied, len(configs))) for copied in (0, 1)]
        if self.combine:
            self.combining = self.backend.prepare(emit.combine(self.problem, device))
        self.failed = mailbox.take(self.backend)
        self._failure = ctypes.c_uint.from_address(self.failed.address)
        self._failure.value = 0
        weakref.finalize(self, mailbox.give, self.backend, self.failed)

    def _check_legal(self, part: Problem, config: Any, reach: Any) -> None:
        device = self.backend.device
        reason = space.illegal(part, config, device)
        far = fit.ahead(reach, work.blocks(config, device, len(reach)))
        if reason is None and far > config.LAG:
            reason = f"LAG={config.LAG}: rows reach {far} steps ahead, so blocks would wait for each other"
        if reason:
            raise IllegalConfig(f"powers: {config}: {reason}")

    def __call__(self, x: int, vectors: int, result: int, copy: int, stream: int) -> None:
        self.check()
        flags = self.space("flags", self.flags * len(self.launches), "uint32", stream)
        self.fills[copy not in (0, x)]((x, copy, vectors, flags), (), stream)
        matrix, line, item = self.matrix(), self.step * self.itemsize, self.itemsize
        for i, (launch, first) in enumerate(self.launches):
            source = x if first == 0 else vectors + (first - 1) * line
            before = 0 if first == 0 else x if first == 1 else vectors + (first - 2) * line
            own = (*matrix[:-1], matrix[-1] + 3 * first * item)
            places = (source, vectors + first * line, result, before)
            launch((*own, *places, flags + 4 * i * self.flags, self.failed.address), (), stream)
        if self.combine:
            self.combining((matrix[-1], x, vectors, result), (), stream)
        self.failed.posted(stream)
        if self.backend.name != "cuda":
            self.check()

    def check(self) -> None:
        if self.backend.name == "cuda" and self.backend.driver.process != os.getpid():
            raise CudaAfterFork  # the word below is the driver's memory, which a child does not have
        if self._failure.value:
            self._failure.value = 0
            raise LaunchError(
                f"powers: a block waited more than {self.limit:.3g} s for others and gave up: the results of that call "
                "are wrong. All blocks must be resident: is the device shared, or another kernel never ending?"
            )

    def settled(self) -> None:
        """Waits for what was launched last."""
        self.failed.read()


class Ranges(Runner):
    """On CPUs: one call."""

    keeps_last = True

    def __init__(self, *arguments: Any, threads: int | None = None) -> None:
        super().__init__(*arguments)
        self.ranges = np.ascontiguousarray(self.choice.ranges, np.int32)
        self.reach = powers_choice.range_lag(self.ordered, self.ranges)[0]
        sizes = (len(self.ranges) - 1, self.choice.lag)
        kernel = emit.kernel(self.problem, self.choice.config, self.backend.device, sizes)
        if threads is not None:
            kernel = type(kernel)(kernel.source, kernel.geometry, (*kernel.fixed[:-1], threads))
        self.launch = self.backend.prepare(kernel)

    def __call__(self, x: int, vectors: int, result: int, copy: int, stream: int) -> None:
        common = 0 if self.ordered.sell.common is None else self.address(self.ordered.sell.common)
        places = (x, vectors, result, common, self.address(self.ranges), self.address(self.reach))
        self.launch((*self.matrix(), *places), (), stream)
