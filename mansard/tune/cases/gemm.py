"""Batches of small products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from ... import testing
from ...backends.base import Launch
from ..stacked import stacked
from .base import CHUNK_ELEMENTS, Case, address_of


class GemmCase(Case):
    """A B, or A B + C, for every matrix of a batch, to a packed C; results are the rows (or columns) of all its
    matrices."""

    def make_operands(self) -> tuple[Any, Any]:
        return self._stack("a", 0), self._stack("b", 1)

    def _stack(self, side: str, seed: int) -> Any:
        """(BATCH, rows, columns), laid out as the problem says; what is shared is repeated by its stride."""
        problem = self.problem
        stack, layout = getattr(problem, f"stack_{side}"), getattr(problem, f"layout_{side}")
        rows, columns = (getattr(problem, name) for name in self.family.spec.SHAPES[side])
        batch = 1 if stack == "shared" else problem.BATCH
        values = testing.random_matrix(self.xp, batch * rows, columns, problem.dtype, seed, self.integers)
        values = values.reshape(batch, rows, columns)
        if not (layout == "row" and stack == "packed" and problem.aligned):
            row, column = (2 * columns, 2) if layout == "any" else problem.strides(side)
            values = stacked(self.xp, values, row, column, problem.aligned, stack == "packed")
        return self.xp.broadcast_to(values, (problem.BATCH, rows, columns)) if stack == "shared" else values

    def poisoned(self) -> Any:
        problem, (lines, length) = self.problem, self._lines_of_c()
        if self.accumulates:
            return testing.random_matrix(self.xp, lines, length, problem.dtype, 2, self.integers)
        return self.nan_filled(lines, length)

    def _lines_of_c(self) -> tuple[int, int]:
        """Of all matrices together: lines of memory, and entries of a line."""
        problem = self.problem
        lines, length = (problem.N, problem.M) if problem.layout_c == "col" else (problem.M, problem.N)
        return problem.BATCH * lines, length

    def out_strides(self) -> tuple[int, ...]:
        return (self.problem.M * self.problem.N, *self.problem.strides("c"))

    @property
    def terms(self) -> int:
        return int(self.problem.K) + self.accumulates

    def call(self, launch: Launch, out: Any) -> Callable[[], None]:
        given = [self._addressed(side, array) for side, array in zip("ab", self.operands, strict=True)]
        pointers = tuple(address_of(array) for array in (*given, out))
        scalars = self.scalars
        return lambda held=given: launch(pointers, scalars, 0)  # type: ignore[misc]

    def _addressed(self, side: str, array: Any) -> Any:
        if getattr(self.problem, f"stack_{side}") != "pointers":
            return array
        return address_of(array) + array.strides[0] * self.xp.arange(self.problem.BATCH, dtype="int64")

    def vendor(self) -> Callable[[], Any]:
        stacks, conj = (self.problem.stack_a, self.problem.stack_b), (self.problem.conj_a, self.problem.conj_b)
        A, B = (x.conj() if c else x for x, c in zip(self.operands, conj, strict=True))
        A, B = (x[0] if stack == "shared" else x for x, stack in zip((A, B), stacks, strict=True))
        if not self.accumulates:
            return lambda: self.xp.matmul(A, B)
        C = self.xp.zeros((self.problem.BATCH, self.problem.M, self.problem.N), self.problem.dtype)
        return lambda: self.xp.add(self.xp.matmul(A, B), C, out=C)

    def reference(self) -> tuple[Any, Any]:
        problem, (A, B) = self.problem, self.operands
        wide = "complex128" if problem.is_complex else "float64"
        product, scale = (self.xp.empty(self._lines_of_c(), dtype) for dtype in (wide, "float64"))
        lines = product.shape[0] // problem.BATCH
        many = max(1, CHUNK_ELEMENTS // ((problem.M + problem.N) * problem.K))
        for begin in range(0, problem.BATCH, many):
            a, b = (x[begin : begin + many].astype(wide) for x in (A, B))
            exact = self.family.spec.reference(a, b, conj_a=problem.conj_a, conj_b=problem.conj_b)
            for found, into in ((exact, product), (self.xp.abs(a) @ self.xp.abs(b), scale)):
                found = found.swapaxes(1, 2) if problem.layout_c == "col" else found
                into[begin * lines : (begin + many) * lines] = found.reshape(-1, into.shape[1])
        if self.accumulates:
            old = self.poisoned()
            product += old
            scale += self.xp.abs(old)
        return product, scale

    def smaller(self, K: int) -> Self:
        """K matrices."""
        return type(self)(self.problem.replace(BATCH=K), self.backend, integers=True)
