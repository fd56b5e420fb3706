"""Tall times small with the Gram matrix of the result: W = A C and W^H W."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import testing
from ...backends.base import Launch
from ...plan.problem import REAL
from .base import UNIT, Case, address_of

_ALIGNED = 4  # rows of W, to a multiple of which its place is padded: the Gram matrix behind it begins aligned


class MatmulGramCase(Case):
    """A C, and behind it in the same array its Gram matrix."""

    LAYOUTS = ("a",)

    def make_operands(self) -> tuple[Any, Any]:
        return testing.tsmm_operands(self.problem, self.backend.name, integers=self.integers)

    @property
    def _padded(self) -> int:
        return -(-int(self.problem.K) // _ALIGNED) * _ALIGNED

    def poisoned(self) -> Any:
        out = self.nan_filled(self._padded + self.problem.N, self.problem.N)
        out[self.problem.K : self._padded] = 0
        return out

    def out_strides(self) -> tuple[int, ...]:
        """Of W, rows and columns, and of the rows of D, which nothing is read from."""
        return self.problem.N, 1, self.problem.N

    @property
    def exact(self) -> bool:
        """Whether integers come out exactly: sums of squares of sums leave the 24 bits of float32."""
        return bool(REAL[self.problem.dtype] == "float64")

    @property
    def terms(self) -> int:
        return int(self.problem.K + 2 * self.problem.M)

    def call(self, launch: Launch, out: Any) -> Callable[[], None]:
        A, C = map(address_of, self.operands)
        W = address_of(out)
        G = W + self._padded * self.problem.N * out.itemsize
        return lambda: launch((A, C, W, W, G, 0), UNIT, 0)

    def vendor(self) -> Callable[[], Any]:
        A, C = self.operands

        def both() -> Any:
            W = self.xp.matmul(A, C)
            return W, self.xp.matmul(W.conj().T, W)

        return both

    def reference(self) -> tuple[Any, Any]:
        A, C = (operand.astype("complex128" if self.problem.is_complex else "float64") for operand in self.operands)
        W, G = self.family.spec.reference(A, C, conj=self.problem.conj)
        size = self.xp.abs(A) @ self.xp.abs(C)
        return self._joined(W, G), self._joined(size, size.T @ size)

    def _joined(self, W: Any, G: Any) -> Any:
        padding = self.xp.zeros((self._padded - self.problem.K, self.problem.N), W.dtype)
        return self.xp.concatenate([W, padding, G])
