"""Powers by products, one after the other: what is left where reading the matrix less often does not pay."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from .....arrays import kinds as arrays
from .....arrays.cupy import stream_at
from .....arrays.types import Array, SparseMatrix
from .....backends.base import Backend
from .....kernels.sparse import spmv
from .....kernels.sparse.spmv.space import Merge
from .....plan.problem import Problem
from .... import run as call
from ... import spmv_call
from ...operand import Held
from ..plan import Choice
from .runner import Runner, with_threads


class Plain(Runner):
    """One power after the other, by the kernels of `A @ x`, whose matrices it reads."""

    def __init__(
        self,
        problem: Problem,
        held: Held,
        choice: Choice,
        backend: Backend,
        coefficients: Array,
        threads: int | None = None,
    ) -> None:
        super().__init__(problem, held.xp, choice, backend)
        self.held = held
        self.steps = steps = np.asarray(coefficients)[: 3 * problem.P].reshape(problem.P, 3).tolist()
        product = spmv.spec.problem(
            problem.dtype, problem.ROWS, problem.ROWS, held.storage.nnz, 1,
            recurrence=any(beta != 0 or gamma != 0 for _, beta, gamma in steps), **held.traits,
        )  # fmt: skip
        library = spmv_call.library_wins(product.replace(recurrence=False), backend)
        self.launch, chosen, kernel = spmv_call.prepared(held, product, backend, (1, 1, 1), library)
        if threads is not None and kernel is not None and backend.name == "cpu":
            self.launch = backend.prepare(with_threads(kernel, threads))
        self.library: SparseMatrix = held.library() if self.launch is None else None
        reason = choice.reason if self.library is None else f"{choice.reason}; products by the array library"
        self.choice = replace(choice, config=chosen.config, reason=reason)
        merged = chosen.config.BLOCK * chosen.config.PER_THREAD if isinstance(chosen.config, Merge) else None
        self.pointers = held.pointers(merged)
        self.scalars = []
        for alpha, beta, gamma in steps:
            both = call.scalars(product, alpha, beta)
            self.scalars.append((*both, *call.scalars(product, gamma, 0.0)[:2]) if product.recurrence else both)

    def __call__(self, x: int, vectors: int, result: int, copy: int, stream: int) -> None:
        line, last = self.step * self.itemsize, self.problem.P - 1
        before, source = 0, x
        for k, scalars in enumerate(self.scalars):
            target = result if k == last and self.problem.output == "last" else vectors + k * line
            if self.library is None:
                self.launch((*self.pointers, source, target, before or target), scalars, stream)
            else:
                self._by_library(self.steps[k], source, target, before, stream)
            before, source = source, target

    def _by_library(self, step: list[float], source: int, target: int, before: int, stream: int) -> None:
        alpha, beta, gamma = step
        with nullcontext() if self.xp is np else stream_at(self.xp, stream):
            x, y = self._vector(source), self._vector(target)
            z = self._vector(before) * gamma if before and gamma != 0 else None  # whose place y may take
            spmv = arrays.kind_of(y, "y").spmv
            if spmv is None or self.library.dtype != y.dtype:
                y[...] = self.library @ x
            else:
                spmv(self.library, x, y)
            if alpha != 1:
                y *= alpha
            if beta != 0:
                y += beta * x
            if z is not None:
                y += z

    def _vector(self, address: int) -> Array:
        """An array over memory that another array owns."""
        size = self.step * self.itemsize
        if self.xp is np:
            return np.frombuffer((ctypes.c_char * size).from_address(address), self.problem.dtype)
        memory = self.xp.cuda.UnownedMemory(address, size, self)
        return self.xp.ndarray(self.step, self.problem.dtype, self.xp.cuda.MemoryPointer(memory, 0))
