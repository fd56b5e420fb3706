"""What all executions of powers share. Vectors are dense and in the matrix' order here; callers pass addresses."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from .....codegen.geometry import Kernel
from .....plan.problem import Problem
from ..plan import Choice


class Runner:
    """An execution: the matrix' addresses, coefficients on the device, work space per stream."""

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


def with_threads(kernel: Kernel, threads: int | None) -> Kernel:
    """A CPU kernel that runs on so many threads, None: on as many as it chose."""
    if threads is None:
        return kernel
    return Kernel(kernel.source, kernel.geometry, (*kernel.fixed[:-1], threads))
