"""Products of tall matrices: A^H B."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import testing
from .base import CHUNK_ELEMENTS, Case


class GramCase(Case):
    """A^H B."""

    LAYOUTS = ("a", "b")

    def make_operands(self) -> tuple[Any, Any]:
        return testing.operands(self.problem, self.backend.name, integers=self.integers)

    def poisoned(self) -> Any:
        return self.nan_filled(self.problem.M, self.problem.N)

    @property
    def terms(self) -> int:
        return int(self.problem.K)

    def vendor(self) -> Callable[[], Any]:
        """The array library's own product, which forms the conjugate of A first. For complex numbers cuBLAS with its
        conjugating option is faster; that is the benchmark's peer, this is not."""
        A, B = self.operands
        if self.problem.conj:
            return lambda: self.xp.matmul(A.conj().T, B)
        return lambda: self.xp.matmul(A.T, B)

    def reference(self) -> tuple[Any, Any]:
        A, B = self.operands
        problem = self.problem
        wide = "complex128" if problem.is_complex else "float64"
        rows = max(1, CHUNK_ELEMENTS // (problem.M + problem.N))
        product = self.xp.zeros((problem.M, problem.N), wide)
        scale = self.xp.zeros((problem.M, problem.N), "float64")
        for begin in range(0, problem.K, rows):
            a, b = (array[begin : begin + rows].astype(wide) for array in (A, B))
            product += self.family.spec.reference(a, b, conj=problem.conj)
            scale += self.xp.abs(a).T @ self.xp.abs(b)
        return product, scale
