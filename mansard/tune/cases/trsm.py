"""Batches of small triangular systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from ... import testing
from ...backends.base import Launch
from ...kernels.batched.trsm import lapack
from ..stacked import stacked
from .base import CHUNK_ELEMENTS, UNIT, Case, address_of


class TrsmCase(Case):
    """op(A) X = B for every matrix of a batch, to a packed X; results are the rows (or columns) of all its matrices.
    What A has on the other side of its diagonal is NaN."""

    def make_operands(self) -> tuple[Any, Any]:
        A, B = self._triangles(), self._numbers("b", 1)
        if self.integers:  # right-hand sides whose solutions are integers
            several = self.problem.stack_b == "shared" and self.problem.stack_a != "shared"
            B = self._product(self._clean(A), 0 * B if several else B)
        return self._laid_out("a", A), self._laid_out("b", B)

    def _numbers(self, operand: str, seed: int) -> Any:
        rows, columns = self.family.spec.shape(self.problem, operand)
        batch = 1 if getattr(self.problem, f"stack_{operand}") == "shared" else self.problem.BATCH
        flat = testing.random_matrix(self.xp, batch * rows, columns, self.problem.dtype, seed, self.integers)
        return flat.reshape(batch, rows, columns)

    def _triangles(self) -> Any:
        """Well conditioned ones; diagonals of integer ones are powers of two, by which everything can be divided."""
        xp, N, A = self.xp, self.problem.N, self._numbers("a", 0)
        every = xp.arange(N)
        magnitudes = xp.abs(A[:, every, every])
        diagonal = 2.0 ** (xp.floor(magnitudes) % 3) if self.integers else 1.0 + magnitudes
        A = A if self.integers else A / N
        A = xp.where(self._referenced(), A, xp.asarray(float("nan"), A.dtype))
        A[:, every, every] = float("nan") if self.problem.unit else diagonal
        return A.astype(self.problem.dtype)

    def _referenced(self) -> Any:
        lower = self.xp.tri(self.problem.N, dtype=bool)
        return lower if self.problem.uplo == "lower" else lower.T

    def _clean(self, A: Any) -> Any:
        """With zeros on the other side, and ones on a unit diagonal."""
        xp, every = self.xp, self.xp.arange(self.problem.N)
        A = xp.where(self._referenced(), A, xp.asarray(0, A.dtype))
        if self.problem.unit:
            A[:, every, every] = 1
        return A

    def _product(self, A: Any, X: Any) -> Any:
        op = A.swapaxes(-1, -2) if self.problem.trans in "TC" else A
        op = op.conj() if self.problem.trans in "CR" else op
        return op @ X if self.problem.side == "left" else X @ op

    def _laid_out(self, operand: str, values: Any) -> Any:
        """(BATCH, rows, columns), laid out as the problem says; what is shared is repeated by its stride."""
        problem, (_, rows, columns) = self.problem, values.shape
        stack, layout = getattr(problem, f"stack_{operand}"), getattr(problem, f"layout_{operand}")
        if not (layout == "row" and stack == "packed" and problem.aligned):
            row, column = (2 * columns, 2) if layout == "any" else problem.strides(operand)
            values = stacked(self.xp, values, row, column, problem.aligned, stack == "packed")
        return self.xp.broadcast_to(values, (problem.BATCH, rows, columns)) if stack == "shared" else values

    def poisoned(self) -> Any:
        rows, columns = self.family.spec.shape(self.problem, "x")
        lines, length = (columns, rows) if self.problem.layout_x == "col" else (rows, columns)
        return self.nan_filled(self.problem.BATCH * lines, length)

    def out_strides(self) -> tuple[int, ...]:
        rows, columns = self.family.spec.shape(self.problem, "x")
        return (rows * columns, *((1, rows) if self.problem.layout_x == "col" else (columns, 1)))

    @property
    def terms(self) -> int:
        return int(self.problem.N)

    def call(self, launch: Launch, out: Any) -> Callable[[], None]:
        named = (*zip("ab", self.operands, strict=True), ("x", out))
        given = [self._addressed(operand, array) for operand, array in named]
        pointers = tuple(map(address_of, given))
        return lambda held=given: launch(pointers, UNIT, 0)  # type: ignore[misc]

    def _addressed(self, operand: str, array: Any) -> Any:
        """Arrays of addresses, where the kernel wants them."""
        if getattr(self.problem, f"stack_{operand}") != "pointers":
            return array
        step = array.strides[0] if operand != "x" else self.out_strides()[0] * array.itemsize
        return address_of(array) + step * self.xp.arange(self.problem.BATCH, dtype="int64")

    def vendor(self) -> Callable[[], Any]:
        A, B = self.operands
        if self.backend.name == "cuda":
            return lambda: self._reference(A, B)
        X = self.xp.empty(B.shape, B.dtype)

        def solve() -> None:
            X[...] = B
            lapack.solve_each(self.problem, A, X, 1.0)

        return solve

    def _reference(self, A: Any, B: Any) -> Any:
        problem = self.problem
        return self.family.spec.reference(A, B, 1, problem.side, problem.uplo, problem.trans, problem.unit)

    def reference(self) -> tuple[Any, Any]:
        """The solution, and |op(A)^-1| |op(A)| |X|, of which its error is a small multiple. An inverse's magnitude
        is at most the inverse of the comparison matrix: magnitudes, with a minus beside the diagonal."""
        problem, (A, B) = self.problem, self.operands
        wide = "complex128" if problem.is_complex else "float64"
        solution, scale = self.poisoned().astype(wide), self.poisoned().real.astype("float64")
        lines = solution.shape[0] // problem.BATCH
        many, every = max(1, CHUNK_ELEMENTS // (problem.N * (problem.N + problem.NRHS))), self.xp.arange(problem.N)
        for begin in range(0, problem.BATCH, many):
            a, b = (x[begin : begin + many].astype(wide) for x in (A, B))
            exact, sizes = self._reference(a, b), self.xp.abs(self._clean(a))
            grown = self._product(sizes, self.xp.abs(exact))
            comparison = -sizes
            comparison[:, every, every] *= -1
            for found, into in ((exact, solution), (self._reference(comparison, grown), scale)):
                found = found.swapaxes(1, 2) if problem.layout_x == "col" else found
                into[begin * lines : (begin + many) * lines] = found.reshape(-1, into.shape[1])
        return solution, scale

    def smaller(self, K: int) -> Self:
        """K matrices."""
        return type(self)(self.problem.replace(BATCH=K), self.backend, integers=True)
