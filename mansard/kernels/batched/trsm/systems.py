"""The one system that kernels solve: A X = alpha B with A on the left and not transposed.

X op(A) = alpha B is the transposed system, and a transposed A is the other triangle in the other layout. What is left
are the operands of a product A X, so gemm's images and windows serve here as well: M and K are the order, N counts the
right-hand sides, and C is X.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ....plan.problem import Problem
from ...common import operands
from ..gemm import spec as gemm_spec


@dataclass(frozen=True)
class System:
    """A X = alpha B; `operands` are those of gemm."""

    operands: Problem
    upper: bool
    unit: bool
    conj: bool
    a_turned: bool  # what is called a row of A is a column of the call's A
    x_turned: bool


@lru_cache(maxsize=4096)
def system(problem: Problem) -> System:
    """The system of a problem."""
    x_turned = problem.side == "right"
    a_turned = (problem.trans in "TC") != x_turned
    right = {theirs: operands.of(problem, ours, x_turned) for ours, theirs in (("b", "b"), ("x", "c"))}
    right = {name: operands.as_column(one, (problem.N, problem.NRHS)) for name, one in right.items()}
    product = gemm_spec.problem(
        problem.dtype, problem.N, problem.NRHS, problem.N, problem.BATCH, aligned=problem.aligned,
        a=operands.of(problem, "a", a_turned), b=right["b"], c=right["c"],
    )  # fmt: skip
    return System(
        product,
        upper=(problem.uplo == "upper") != a_turned,
        unit=problem.unit,
        conj=problem.trans in "CR" and problem.is_complex,
        a_turned=a_turned,
        x_turned=x_turned,
    )
