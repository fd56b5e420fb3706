"""Batches of small triangular products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...kernels.batched.trsm import lapack
from .base import CHUNK_ELEMENTS
from .trsm import TrsmCase


class TrmmCase(TrsmCase):
    """X = op(A) B for every matrix of a batch, to a packed X; results are the rows (or columns) of all its matrices.
    What A has on the other side of its diagonal is NaN."""

    def make_operands(self) -> tuple[Any, Any]:
        return self._laid_out("a", self._triangles()), self._laid_out("b", self._numbers("b", 1))

    def vendor(self) -> Callable[[], Any]:
        A, B = self.operands
        if self.backend.name == "cuda":
            return lambda: self._product(self._clean(A), B)
        X = self.xp.empty((self.problem.BATCH, *B.shape[1:]), B.dtype)

        def multiply() -> None:
            X[...] = B
            lapack.multiply_each(self.problem, A, X, 1.0)

        return multiply

    def reference(self) -> tuple[Any, Any]:
        """The product, and |op(A)| |B|, of which its error is a small multiple."""
        problem, (A, B) = self.problem, self.operands
        wide = "complex128" if problem.is_complex else "float64"
        found, scale = self.poisoned().astype(wide), self.poisoned().real.astype("float64")
        lines = found.shape[0] // problem.BATCH
        many = max(1, CHUNK_ELEMENTS // (problem.N * (problem.N + problem.NRHS)))
        for begin in range(0, problem.BATCH, many):
            a, b = (x[begin : begin + many].astype(wide) for x in (A, B))
            a = self._clean(a)
            for of_a, of_b, into in ((a, b, found), (self.xp.abs(a), self.xp.abs(b), scale)):
                product = self._product(of_a, of_b)
                product = product.swapaxes(1, 2) if problem.layout_x == "col" else product
                into[begin * lines : (begin + many) * lines] = product.reshape(-1, into.shape[1])
        return found, scale
