"""Which problems `gemv` accepts, and what the right answer is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ....plan.problem import Problem
from ...common import specs
from ..gemm import spec as gemm_spec

WIDEST = 4096
LONG = gemm_spec.LONG
SHAPES = gemm_spec.SHAPES
shape, strides = gemm_spec.shape, gemm_spec.strides


def problem(dtype: str, M: int, K: int, BATCH: int, **traits: Any) -> Problem:
    """y = alpha A x + beta y for each of BATCH matrices of M rows and K columns.

    This is gemm with N = 1, and has its traits: B is the vector x, C the vector y. Their entries are adjacent in memory
    where `pitch_b` and `pitch_c` are 1 (and layouts `row`); a transposed A is a `col`-major one.
    """
    return of_products(gemm_spec.problem(dtype, M, 1, K, BATCH, **traits))


def of_products(products: Problem) -> Problem:
    """The same as a problem of gemm's describes it."""
    return Problem("gemv", products.dtype, products.sizes, products.traits)


@lru_cache(maxsize=4096)
def canonical(problem: Problem) -> Problem:
    """The same with one name for what is the same in memory: vectors of adjacent entries are single columns (others are
    `any`), a matrix of one column without gaps is column-major, one of one row is row-major."""
    changes: dict[str, Any] = {}
    for side, length in (("b", problem.K), ("c", problem.M)):
        layout = getattr(problem, f"layout_{side}")
        unit = layout == "col" or (layout == "row" and (length == 1 or getattr(problem, f"pitch_{side}") == 1))
        changes |= {f"layout_{side}": "col" if unit else "any", f"pitch_{side}": length}
    if problem.layout_a == "row" and problem.K == problem.pitch_a == 1:
        changes |= {"layout_a": "col", "pitch_a": problem.M}
    elif problem.layout_a == "col" and problem.M == problem.pitch_a == 1:
        changes |= {"layout_a": "row", "pitch_a": problem.K}
    return problem.replace(**changes)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if max(problem.M, problem.K) > WIDEST:
        return f"gemv: a matrix of {problem.M} x {problem.K}: beyond {WIDEST} one of them keeps a device busy"
    return None


def reference(
    A: Any, x: Any, y: Any = None, alpha: complex = 1, beta: complex = 0, conj_a: bool = False, conj_b: bool = False
) -> Any:
    """The answer in NumPy, in the operands' own precision; vectors are matrices of one column."""
    return gemm_spec.reference(A, x, y, alpha, beta, conj_a, conj_b)
