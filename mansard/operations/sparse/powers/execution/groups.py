"""Powers by groups of rows that pass through a cache: a launch per group on GPUs, one call on CPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....backends.base import Launch
from .....kernels.sparse.powers import emit
from ...captured import Graphs
from ..order.groups import launch_order, range_lag, whole
from .runner import LevelRunner, with_threads


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
