"""Large times skinny: A B."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, Self

from ... import testing
from .base import CHUNK_ELEMENTS, Case


class Tsm2rCase(Case):
    """A B for large A."""

    LAYOUTS = ("a",)

    def make_operands(self) -> tuple[Any, Any]:
        problem = self.problem
        A = testing.random_matrix(self.xp, problem.M, problem.K, problem.dtype, 0, self.integers)
        if not (problem.layout_a == "row" and problem.pitch_a == problem.K and problem.aligned):
            A = testing.laid_out(A, problem.layout_a, problem.pitch_a, problem.aligned)
        B = testing.random_matrix(self.xp, problem.K, problem.N, problem.dtype, 1, self.integers)
        return A, testing.laid_out(B, problem.layout_b, problem.K if problem.layout_b == "col" else problem.N)

    def poisoned(self) -> Any:
        problem = self.problem
        out = self.nan_filled(problem.M, problem.N)
        return testing.laid_out(out, problem.layout_c, problem.M if problem.layout_c == "col" else problem.N)

    def out_strides(self) -> tuple[int, int]:
        return (1, self.problem.M) if self.problem.layout_c == "col" else (self.problem.N, 1)

    @property
    def terms(self) -> int:
        return int(self.problem.K)

    def vendor(self) -> Callable[[], Any]:
        conj = (self.problem.conj_a, self.problem.conj_b)
        A, B = (x.conj() if c else x for x, c in zip(self.operands, conj, strict=True))
        return lambda: self.xp.matmul(A, B)

    def reference(self) -> tuple[Any, Any]:
        A, B = self.operands
        problem = self.problem
        wide = "complex128" if problem.is_complex else "float64"
        b, rows = B.astype(wide), max(1, CHUNK_ELEMENTS // problem.K)
        product = self.xp.empty((problem.M, problem.N), wide)
        scale = self.xp.empty((problem.M, problem.N), "float64")
        for begin in range(0, problem.M, rows):
            a = A[begin : begin + rows].astype(wide)
            exact = self.family.spec.reference(a, b, conj_a=problem.conj_a, conj_b=problem.conj_b)
            product[begin : begin + rows] = exact
            scale[begin : begin + rows] = self.xp.abs(a) @ self.xp.abs(b)
        return product, scale

    def smaller(self, K: int) -> Self:
        """Both sides of A shrink; rows (or columns) stay as well aligned as they were."""
        most = 4097 if self.backend.name == "cuda" else 100
        K, M = max(1, min(K, self.problem.K)), min(self.problem.M, most)
        unit = gcd(self.problem.pitch_a, 64)
        pitch = -(-(K if self.problem.layout_a == "row" else M) // unit) * unit
        return type(self)(self.problem.replace(K=K, M=M, pitch_a=pitch), self.backend, integers=True)
