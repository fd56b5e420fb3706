"""Tall times small: A C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import testing
from .base import Case


class TsmmCase(Case):
    """A C."""

    LAYOUTS = ("a", "w")

    def make_operands(self) -> tuple[Any, Any]:
        return testing.tsmm_operands(self.problem, self.backend.name, integers=self.integers)

    def poisoned(self) -> Any:
        problem = self.problem
        out = self.nan_filled(problem.K, problem.N)
        if problem.layout_w == "row" and problem.pitch_w == problem.N and problem.aligned:
            return out
        return testing.laid_out(out, problem.layout_w, problem.pitch_w, problem.aligned)

    def out_strides(self) -> tuple[int, int]:
        return (self.problem.pitch_w, 1) if self.problem.layout_w == "row" else (1, self.problem.pitch_w)

    @property
    def terms(self) -> int:
        return int(self.problem.M)

    def vendor(self) -> Callable[[], Any]:
        A, C = self.operands
        return lambda: self.xp.matmul(A, C)

    def reference(self) -> tuple[Any, Any]:
        A, C = self.operands
        wide = "complex128" if self.problem.is_complex else "float64"
        c = C.astype(wide)
        product = self.family.spec.reference(A.astype(wide), c, conj=self.problem.conj)
        return product, self.xp.abs(A).astype("float64") @ self.xp.abs(c)
