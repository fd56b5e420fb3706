"""Powers in one persistent launch, whose blocks wait for each other's tiles and keep theirs in shared memory."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from .....arrays.types import Array
from .....backends import mailbox
from .....errors import CudaAfterFork, IllegalConfig, LaunchError
from .....kernels.sparse.powers import emit, fit, space, work
from .....kernels.sparse.powers.space import Persistent
from .....plan.problem import Problem
from ...storage import host
from ..task import LIMIT
from .runner import LevelRunner


class Passes(LevelRunner):
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
            reach = host(self.ordered.reach(self.sell.C * config.TILE))
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

    def _check_legal(self, part: Problem, config: Persistent, reach: Array) -> None:
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
        matrix, line, item = self.matrix, self.step * self.itemsize, self.itemsize
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
