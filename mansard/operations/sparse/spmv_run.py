"""Runs a planned product of a sparse matrix with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arrays.types import Array, Kind, SparseMatrix
from ...backends.base import Backend, Launch
from ...kernels.family import Config
from ...kernels.sparse.spmv import emit
from ...kernels.sparse.spmv.space import Merge
from ...plan.problem import ITEMSIZE, Problem
from .. import direct
from .. import run as call
from .operand import Held

_PLAIN = (1.0, 0.0, 0.0, 0.0)
_PLAIN_STEP = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class ProductRun:
    """A plan's path: addresses, copies of what no kernel reads, scalars, one launch."""

    def __init__(
        self, kind: Kind, problem: Problem, backend: Backend, held: Held, launch: Launch | None, config: Config,
        vectors: tuple[Array, Array, Array], strides: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.kind, self.problem, self.backend, self.held, self.launch = kind, problem, backend, held, launch
        self.strides, self.stream = strides, kind.stream_of(held.device)
        x, y, z = vectors
        self.copies = tuple(one is not None and not one.ready for one in (x, y, z))
        self.shape = (held.storage.shape[0], *x.view.shape[1:])
        self.pointers = self._pointers(config) if launch is not None else ()
        self._accumulating: list[Any] = []  # launch and pointers of the kernel that reads y
        self._matrix: SparseMatrix = None  # the array library's

    def _pointers(self, config: Config) -> tuple[int, ...]:
        return self.held.pointers(config.BLOCK * config.PER_THREAD if isinstance(config, Merge) else None)

    def bound(self) -> Callable[..., Array]:
        """The run as a function over local names, where vectors go to a kernel as they are."""
        if self.launch is None or any(self.copies) or self.problem.recurrence:
            return self
        address, empty, written, stream = self.kind.address, self.kind.empty, self.kind.written, self.stream
        kind, launch, pointers, shape, dtype = self.kind, self.launch, self.pointers, self.shape, self.problem.dtype
        general = self

        def run(
            x: Array, _: None = None, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0, z: Array = None,
            gamma: complex = 0.0,
        ) -> Array:  # fmt: skip
            if alpha != 1.0 or beta != 0.0 or gamma != 0.0:
                return general(x, None, out, alpha, beta, z, gamma)
            y = empty(shape, dtype, x) if out is None else out
            to = address(y)
            launch((*pointers, address(x), to, to), _PLAIN, stream())
            if out is not None and written is not None:
                written((out,))
            return y

        order = (*(direct.FIXED for _ in pointers), 0, 2, 2)
        makers = (kind.maker(shape, dtype, dtype),)
        return direct.described(
            run, direct.Direct(kind, launch, self.held.device, order, makers, scalars=_PLAIN, fixed=pointers)
        )

    def __call__(
        self, x: Array, _: None = None, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0, z: Array = None,
        gamma: complex = 0.0,
    ) -> Array:  # fmt: skip
        kind, recurrence = self.kind, self.problem.recurrence
        if out is None and beta != 0.0 and not recurrence:
            raise ValueError("beta scales the content of out: pass out")
        if z is None and gamma != 0.0:
            raise ValueError("gamma scales z: pass z")
        scalars = self._scalars(alpha, beta, gamma)
        if self.launch is None:
            return self._library(x, out, alpha, beta, z, gamma)
        x = self._plain(x) if self.copies[0] else x
        z = self._plain(z) if self.copies[2] else z
        y = kind.empty(self.shape, self.problem.dtype, x) if out is None or self.copies[1] else out
        launch, pointers = self.launch, self.pointers
        if beta != 0.0 and not recurrence:
            launch, pointers = self._that_reads()
            if y is not out:
                y[...] = out
        at, to = kind.address(x), kind.address(y)
        launch((*pointers, at, to, to if z is None else kind.address(z)), scalars, self.stream())
        if y is out and kind.written is not None:
            kind.written((out,))
        if out is not None and y is not out:
            out[...] = y
            return out
        return y

    def launcher(self) -> Callable[[int, int, int], None] | None:
        """A function of the addresses of x and y and of a stream that launches y = A x; None where a product is more
        than one launch, or the array library's."""
        if self.launch is None or self.problem.recurrence or any(self.copies):
            return None
        launch, pointers = self.launch, self.pointers
        return lambda x, y, stream: launch((*pointers, x, y, y), _PLAIN, stream)

    def _that_reads(self) -> tuple[Launch, tuple[int, ...]]:
        if not self._accumulating:
            problem = self.problem.replace(accumulate=True)
            launch, choice, _ = call.prepare(emit, problem, self.backend, self.strides)
            self._accumulating += [launch, self._pointers(choice.config)]
        return self._accumulating[0], self._accumulating[1]

    def _plain(self, array: Array) -> Array:
        """A copy that kernels can read."""
        plain = self.kind.plain(array)
        if self.kind.address(plain) % ITEMSIZE[self.problem.dtype]:
            plain = plain.clone() if hasattr(plain, "clone") else plain.copy()
        return plain

    def _scalars(self, alpha: complex, beta: complex, gamma: complex) -> tuple[float, ...]:
        """As kernels take them; the usual ones are one object, which launches recognise."""
        if not self.problem.recurrence:
            return _PLAIN if alpha == 1.0 and beta == 0.0 else call.scalars(self.problem, alpha, beta)
        if alpha == 1.0 and beta == 0.0 and gamma == 0.0:
            return _PLAIN_STEP
        return (*call.scalars(self.problem, alpha, beta), *call.scalars(self.problem, gamma, 0.0)[:2])

    def _library(self, x: Array, out: Array, alpha: complex, beta: complex, z: Array, gamma: complex) -> Array:
        """The array library's own product; also the answer of matrices without entries."""
        total = None
        if self.held.storage.nnz and 0 not in self.shape:
            spmv = self.kind.spmv if out is not None and (alpha, beta, gamma) == (1.0, 0.0, 0.0) else None
            if spmv is not None and self._goes_straight():
                return spmv(self._library_matrix(), x, out)
            product = self._product(x)
            total = product if alpha == 1.0 else product * alpha
        own, factor = (x, beta) if self.problem.recurrence else (out, beta)
        for one, by in ((own, factor), (z, gamma)):
            if by != 0.0:
                total = one * by if total is None else total + one * by
        if out is None and total is not None:
            return total
        result = self.kind.empty(self.shape, self.problem.dtype, x) if out is None else out
        result[...] = 0 if total is None else total
        return result

    def _goes_straight(self) -> bool:
        """Whether cuSPARSE can write one vector to `out` itself."""
        same = self.held.storage.values_dtype == self.problem.dtype
        return len(self.shape) == 1 and not any(self.copies) and same

    def _library_matrix(self) -> SparseMatrix:
        if self._matrix is None:
            matrix = self.held.library()
            self._matrix = matrix.conj() if self.problem.conj else matrix
        return self._matrix

    def _product(self, x: Array) -> Array:
        product = self._library_matrix() @ self.kind.unwrap(x, "x")
        return self.kind.wrap(product.astype(self.problem.dtype, copy=False))
