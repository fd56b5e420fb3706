"""Batches of rank-k updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import CHUNK_ELEMENTS
from .gemm import GemmCase


class RankKCase(GemmCase):
    """A A', or A B' and its transpose, for every matrix of a batch, to a packed C; the other triangle is zero."""

    def make_operands(self) -> tuple[Any, Any]:
        a = self._stack("a", 0)
        return a, self._stack("b", 1) if self.problem.two else a

    def _lines_of_c(self) -> tuple[int, int]:
        return self.problem.BATCH * self.problem.N, self.problem.N

    def poisoned(self) -> Any:
        problem, found = self.problem, super().poisoned()
        if problem.part == "full":
            return found
        stack = found.reshape(problem.BATCH, problem.N, problem.N)
        if (problem.part == "lower") == (problem.layout_c != "col"):
            stack[...] = self.xp.tril(stack)
        else:
            stack[...] = self.xp.triu(stack)
        return found

    def out_strides(self) -> tuple[int, ...]:
        return (self.problem.N * self.problem.N, *self.problem.strides("c"))

    @property
    def terms(self) -> int:
        return int(self.problem.K) * (2 if self.problem.two else 1) + self.accumulates

    def vendor(self) -> Callable[[], Any]:
        A, B = (x[0] if getattr(self.problem, f"stack_{side}") == "shared" else x
                for side, x in zip("ab", self.operands, strict=True))  # fmt: skip
        right = (B.conj() if self.problem.is_complex else B).swapaxes(-1, -2)
        return lambda: self.xp.matmul(A, right)

    def reference(self) -> tuple[Any, Any]:
        problem, (A, B) = self.problem, self.operands
        wide = "complex128" if problem.is_complex else "float64"
        product, scale = (self.xp.empty((problem.BATCH, problem.N, problem.N), kind) for kind in (wide, "float64"))
        old = self.poisoned().reshape(product.shape) if self.accumulates else None
        many = max(1, CHUNK_ELEMENTS // (problem.N * max(problem.N, problem.K)))
        reference, part_of = self.family.spec.reference, problem.part
        for begin in range(0, problem.BATCH, many):
            part = slice(begin, begin + many)
            a, b = A[part].astype(wide), B[part].astype(wide) if problem.two else None
            before = None if old is None else self._as_rows(old[part])
            how = {"conj_a": problem.conj_a, "conj_b": problem.conj_b, "part": part_of}
            found = reference(a, b, before, 1, 0 if before is None else 1, **how)
            sizes = [None if one is None else self.xp.abs(one) for one in (a, b, before)]
            bound = reference(*sizes, 1, 0 if before is None else 1, part=part_of)
            product[part], scale[part] = self._as_rows(found), self._as_rows(bound)
        shape = self._lines_of_c()
        return product.reshape(shape), scale.reshape(shape)

    def _as_rows(self, stack: Any) -> Any:
        """Matrices as the rows of memory have them: a column-major C is its transpose."""
        return stack.swapaxes(-1, -2) if self.problem.layout_c == "col" else stack
