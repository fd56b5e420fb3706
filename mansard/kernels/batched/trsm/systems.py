"""The one system that kernels solve: A X = alpha B with A on the left and not transposed.

X op(A) = alpha B is the transposed system, and a transposed A is the other triangle in the other layout. What is left
are the operands of a product A X, so gemm's images and windows serve here as well: M and K are the order, N counts the
right-hand sides, and C is X.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ....plan.problem import Problem
from ..gemm import spec as gemm_spec

_TURNED = {"row": "col", "col": "row", "any": "any"}


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
    traits: dict[str, object] = {
        "layout_a": _TURNED[problem.layout_a] if a_turned else problem.layout_a,
        "pitch_a": problem.pitch_a,
        "stack_a": problem.stack_a,
    }
    for ours, theirs in (("b", "b"), ("x", "c")):
        layout, pitch = getattr(problem, f"layout_{ours}"), getattr(problem, f"pitch_{ours}")
        layout = _TURNED[layout] if x_turned else layout
        if problem.NRHS == 1 and layout == "row" and pitch == 1:  # rows of one entry without gaps are a column
            layout, pitch = "col", problem.N
        traits |= {f"layout_{theirs}": layout, f"pitch_{theirs}": pitch}
        traits[f"stack_{theirs}"] = getattr(problem, f"stack_{ours}")
    operands = gemm_spec.problem(
        problem.dtype,
        problem.N,
        problem.NRHS,
        problem.N,
        problem.BATCH,
        aligned=problem.aligned,
        **traits,  # type: ignore[arg-type]
    )
    return System(
        operands,
        upper=(problem.uplo == "upper") != a_turned,
        unit=problem.unit,
        conj=problem.trans in "CR" and problem.is_complex,
        a_turned=a_turned,
        x_turned=x_turned,
    )
