"""Base of all executions of powers. Vectors are dense and in the matrix' order here; callers pass addresses."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from types import ModuleType
from typing import Any

import numpy as np

from .....arrays.types import Array
from .....codegen.geometry import Kernel
from .....plan.problem import Problem
from ..order.ordered import Ordered
from ..plan import Choice


class Runner:
    """An execution with its work space, one per stream and thread."""

    def __init__(self, problem: Problem, xp: ModuleType, choice: Choice, backend: Any) -> None:
        self.problem, self.xp, self.choice, self.backend = problem, xp, choice, backend
        self.itemsize = problem.itemsize
        self.step = problem.ROWS * problem.NVECS
        self._spaces: dict[Hashable, Array] = {}

    def address(self, array: Array) -> int:
        return int(array.ctypes.data if self.xp is np else array.data.ptr)

    def addresses(self, *arrays: Array) -> tuple[int, ...]:
        """Addresses of arrays that live as long as the plan; 0 for None."""
        return tuple(0 if array is None else self.address(array) for array in arrays)

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


class LevelRunner(Runner):
    """An execution that reads a matrix in level order, which is stored here, and coefficients on the device."""

    def __init__(self, problem: Problem, ordered: Ordered, choice: Choice, backend: Any, coefficients: Array) -> None:
        super().__init__(problem, ordered.xp, choice, backend)
        self.ordered, self.sell, self.coefficients = ordered, ordered.sell, self.xp.asarray(coefficients)
        sell = self.sell
        self.matrix = self.addresses(sell.buffer, sell.starts, sell.widths, sell.lengths, self.coefficients)


def with_threads(kernel: Kernel, threads: int | None) -> Kernel:
    """A CPU kernel that runs on so many threads, None: on as many as it chose."""
    if threads is None:
        return kernel
    return Kernel(kernel.source, kernel.geometry, (*kernel.fixed[:-1], threads))
