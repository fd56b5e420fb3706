"""Batches of small factorizations, systems and inverses.

Matrices are made of factors that are known, so that nothing has to be factored to know the answer: A = L L^H, or the
rows of A = L U in any order. Off their diagonals L and U have entries of at most 1 / N (integers: small fractions), so
every pivot is the largest by far, and inverses of both stay below e: errors are small multiples of gamma.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ... import testing
from ...backends.base import Launch
from ...errors import UnsupportedProblem
from ...kernels.common.batches import POINTERS
from ...plan.problem import Problem
from ..stacked import stacked
from .base import Case, address_of

# growth of rounding errors; those seen stay below a hundredth
_GROWTH = {"factor": 16.0, "solve": 64.0, "inverse": 64.0, "determinant": 64.0, "logdet": 64.0}
_SAMPLE = 64  # matrices of a batch whose QR is compared; of the others it is seen that nothing is left out
_KNOWN = {
    "cholesky": ("factor", "solve"),
    "lu": ("factor", "solve", "inverse", "determinant", "logdet"),
    "qr": ("raw", "r", "reduced", "solve"),
}


class FactorCase(Case):
    """What is wanted of every matrix, to packed results, one after the other."""

    def __init__(self, problem: Problem, backend: Any, integers: bool = False) -> None:
        super().__init__(problem, backend, integers)
        if problem.want not in _KNOWN[problem.operation]:
            wanted = ", ".join(_KNOWN[problem.operation])
            raise UnsupportedProblem(
                f"tune: {problem.operation} with want={problem.want!r}: only {wanted} can be tuned"
            )
        if problem.want == "logdet" and problem.is_complex:  # whose logarithms are of another dtype than its phases
            raise UnsupportedProblem("tune: logarithms of complex determinants cannot be tuned: tune det")
        self.batch, self.N = int(problem.BATCH), int(problem.N)

    @property
    def exact(self) -> bool:
        """Whether integers come out exactly: roots of sums of squares, and logarithms, do not."""
        return bool(self.problem.operation != "qr" and self.problem.want != "logdet")

    @property
    def terms(self) -> int:
        return int(self.family.spec.shape(self.problem, "a")[0])

    def make_operands(self) -> tuple[Any, Any]:
        A = self._matrices()
        B = A @ self._solutions() if self.problem.want == "solve" else A[:0]
        return self._laid_out("a", A), self._laid_out("b", B) if B.size else B

    def _numbers(self, rows: int, columns: int, seed: int) -> Any:
        """Of magnitude 1 at the most, in double precision; integers as quarters of -1 to 1."""
        dtype = "complex128" if self.problem.is_complex else "float64"
        flat = testing.random_matrix(self.xp, self.batch * rows, columns, dtype, seed, self.integers)
        if self.integers:
            flat = (flat.real.round() % 3 - 1) / 4 + (1j * (flat.imag % 3 - 1) / 4 if self.problem.is_complex else 0)
        else:
            flat = flat / (1 + self.xp.abs(flat))
        return flat.reshape(self.batch, rows, columns)

    def _solutions(self) -> Any:
        return 4 * self._numbers(self.N, self.problem.NRHS, 2)

    def _factors(self) -> tuple[Any, Any]:
        """L and U; those whose inverses are wanted have entries only where these stay exact."""
        xp, N = self.xp, self.N
        share = 1.0 if self.integers else 1.0 / N
        lower, upper = (share * self._numbers(N, N, seed) for seed in (0, 1))
        if self.integers and self.problem.want == "inverse":
            odd = xp.arange(N) % 2 == 1
            lower, upper = lower * (odd[:, None] & ~odd), upper * (odd & ~odd[:, None])
        every = xp.arange(N)
        sizes = xp.abs(upper[:, every, every])
        diagonal = xp.where(sizes > 0, 2.0, 1.0) if self.integers else 1.0 + sizes
        L, U = xp.tril(lower, -1), xp.triu(upper, 1)
        L[:, every, every], U[:, every, every] = 1.0, diagonal
        if self.problem.operation == "cholesky":
            L[:, every, every] = diagonal
            U = L.conj().swapaxes(1, 2)
        return L, U

    def _matrices(self) -> Any:
        if self.problem.operation == "qr":
            M = int(self.problem.M)
            A = self._numbers(M, self.N, 0) / max(M, self.N)
            A[:, range(min(M, self.N)), range(min(M, self.N))] += 2
        else:
            L, U = self._factors()
            A = L @ U
        if self.problem.operation == "lu" and self.problem.pivot:
            A = self.xp.take_along_axis(A, self.xp.argsort(self._order(), axis=1)[:, :, None], axis=1)
        return A.astype(self.problem.dtype)

    def _order(self) -> Any:
        """Where each row of L U goes."""
        draws = self.xp.random.default_rng(3).random((self.batch, self.N))
        return self.xp.argsort(draws, axis=1)

    def _laid_out(self, operand: str, values: Any) -> Any:
        problem = self.problem
        stack, layout = getattr(problem, f"stack_{operand}"), getattr(problem, f"layout_{operand}")
        values = values.astype(problem.dtype)
        if layout == "row" and stack == "packed" and problem.aligned:
            return self.xp.ascontiguousarray(values)
        row, column = (2 * values.shape[2], 2) if layout == "any" else problem.strides(operand)
        return stacked(self.xp, values, row, column, problem.aligned, stack == "packed")

    def _results(self) -> list[tuple[str, int, int]]:
        """Names, rows and columns of what is compared."""
        shape = self.family.spec.shape
        wanted = {"solve": "x", "reduced": "fq", "logdet": "fx"}.get(self.problem.want, "f")
        return [(name, *shape(self.problem, name)) for name in wanted]

    def poisoned(self) -> Any:
        numbers = sum(rows * columns for _, rows, columns in self._results())
        return self.nan_filled(self.batch, numbers)

    def kernel(self, config: Any) -> Any:
        """With the strides of what was made; results are packed."""
        found = dict(zip("ab", self.operands, strict=True))
        results = {name: (rows, columns) for name, rows, columns in self._results()}
        strides: tuple[int, ...] = ()
        for name in self.family.spec.SHAPES:
            if name in results:
                rows, columns = results[name]
                turned = getattr(self.problem, f"layout_{name}") == "col"
                strides += (rows * columns, *((1, rows) if turned else (columns, 1)))
            elif name in found and found[name].size:
                strides += tuple(stride // found[name].itemsize for stride in found[name].strides)
            else:
                strides += (0, 0, 0)
        return self.family.emit.kernel(self.problem, config, self.backend.device, strides)

    def call(self, launch: Launch, out: Any) -> Callable[[], None]:
        held: dict[str, Any] = {name.upper(): array for name, array in zip("ab", self.operands, strict=True)}
        xp, steps = self.xp, min(self.terms, self.N)
        beside = {"INFO": ((), "int32"), "PIVOTS": ((steps,), "int32"), "TAU": ((steps,), self.problem.dtype)}
        for name, (shape, dtype) in beside.items():
            held[name] = xp.empty((self.batch, *shape), dtype)
        addresses = {name: address_of(array) for name, array in held.items() if array.size}
        begin = address_of(out)
        for name, rows, columns in self._results():
            addresses[name.upper()] = begin
            begin += self.batch * rows * columns * out.itemsize
        for name in {"A", "B"} & addresses.keys():
            if getattr(self.problem, f"stack_{name.lower()}") == "pointers":
                held[f"{name} table"] = addresses[name] + held[name].strides[0] * xp.arange(self.batch, dtype="int64")
                addresses[name] = address_of(held[f"{name} table"])
        pointers = tuple(addresses.get(name, 0) for name in POINTERS[self.problem.operation])
        return lambda held=held: launch(pointers, (), 0)  # type: ignore[misc]

    def vendor(self) -> Callable[[], Any]:
        linalg, (A, B) = self.xp.linalg, self.operands
        what, want = self.problem.operation, self.problem.want
        numbers = {"inverse": linalg.inv, "determinant": linalg.det, "logdet": linalg.slogdet}
        if want in numbers:
            return lambda: numbers[want](A)
        if want == "solve" and what != "qr":
            return lambda: linalg.solve(A, B)
        if what == "cholesky":
            return lambda: linalg.cholesky(A)
        raise UnsupportedProblem(f"tune: the array library has no {what} with want={want!r} for stacks")

    def reference(self) -> tuple[Any, Any]:
        """What was put in, and what rounding may make of it, in double precision."""
        if self.problem.operation == "qr":
            return self._sampled()
        xp, want, (L, U) = self.xp, self.problem.want, self._factors()
        if want in ("determinant", "logdet"):
            return self._determinants(U)
        if want == "solve":
            exact = self._solutions()
        elif want == "inverse":
            exact = self._inverse(L, U)
        elif self.problem.operation == "cholesky":
            exact = L if self.problem.uplo == "lower" else U
        else:
            exact = xp.tril(L, -1) + U
        scale = xp.full(exact.shape, _GROWTH[want])
        return self._flat([exact]), self._flat([scale])

    def _determinants(self, U: Any) -> tuple[Any, Any]:
        """The product of U's diagonal with the sign of the rows' order; for logdet that sign, and the logarithm."""
        xp, every = self.xp, self.xp.arange(self.N)
        diagonal, sign = U[:, every, every], xp.ones(self.batch)
        if self.problem.pivot:
            order = self._order()
            for i in range(self.N):  # an order is odd if an odd number of pairs is the wrong way round
                sign *= 1 - 2 * ((order[:, i : i + 1] > order[:, i + 1 :]).sum(axis=1) % 2)
        if self.problem.want == "determinant":
            parts = [sign * xp.prod(diagonal, axis=1)]
        else:
            parts = [sign, xp.log(xp.abs(diagonal)).sum(axis=1)]
        exact = self._flat([part[:, None, None] for part in parts])
        return exact, _GROWTH[self.problem.want] * (1 + xp.abs(exact))

    def _inverse(self, L: Any, U: Any) -> Any:
        """Integers without a rounding error: products of two parts beside the diagonals vanish."""
        xp, every = self.xp, self.xp.arange(self.N)
        if self.integers:
            diagonal = 1 / U[:, every, every]
            left, right = xp.zeros_like(U), 2 * xp.eye(self.N) - L
            left[:, every, every] = diagonal
            left -= diagonal[:, :, None] * xp.triu(U, 1) * diagonal[:, None, :]
        else:
            left, right = xp.linalg.inv(U), xp.linalg.inv(L)
        exact = left @ right
        return (
            xp.take_along_axis(exact, xp.argsort(self._order(), axis=1)[:, None, :], 2) if self.problem.pivot else exact
        )

    def _flat(self, parts: list[Any]) -> Any:
        """As kernels write them: a line per matrix would mix parts, so all are laid end to end."""
        turned = []
        for (name, _, _), part in zip(self._results(), parts, strict=True):
            lines = part.swapaxes(1, 2) if getattr(self.problem, f"layout_{name}") == "col" else part
            turned.append(lines.reshape(-1))
        return self.xp.concatenate(turned).reshape(self.batch, -1)

    def _sampled(self) -> tuple[Any, Any]:
        """LAPACK's answers for the first and last matrices; anything finite for the others."""
        A, B = self.operands
        some = np.unique(np.r_[: min(_SAMPLE, self.batch), max(0, self.batch - _SAMPLE) : self.batch])
        host = [np.asarray(x[some].get() if hasattr(x, "get") else x[some]) for x in (A, B if B.size else A)]
        wide = [x.astype("complex128" if self.problem.is_complex else "float64") for x in host]
        answers = self.family.spec.reference(wide[0], wide[1], self.problem.want)
        answers = (answers[0], answers[1]) if self.problem.want == "reduced" else answers[:1]
        exact, scale = [], []
        for (_, rows, columns), answer in zip(self._results(), answers, strict=True):
            whole = self.xp.zeros((self.batch, rows, columns), answer.dtype)
            bound = self.xp.full((self.batch, rows, columns), np.inf)
            whole[some], bound[some] = self.xp.asarray(answer), 64.0 * self.N
            exact.append(whole)
            scale.append(bound)
        return self._flat(exact), self._flat(scale)

    def smaller(self, K: int) -> Self:
        """K matrices."""
        return type(self)(self.problem.replace(BATCH=K), self.backend, integers=True)
