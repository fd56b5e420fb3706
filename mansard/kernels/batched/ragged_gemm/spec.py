"""Which problems `ragged_gemm` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....plan.problem import DTYPES, Problem
from ...common import operands

LONG = ("BATCH",)
SHAPES: dict[str, tuple[str, str]] = {}  # sizes are in tables, and matrices have no gaps
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str,
    BATCH: int,
    *,
    trans_a: bool = False,
    conj_a: bool = False,
    trans_b: bool = False,
    conj_b: bool = False,
    accumulate: bool = False,
) -> Problem:
    """C_i = alpha op(A_i) op(B_i) + beta C_i for BATCH products. Matrices lie row after row without gaps, each anywhere
    in its operand's memory; where, and of what size, is said by tables that the kernels read."""
    is_complex = dtype.startswith("complex")
    return Problem(
        "ragged_gemm",
        dtype,
        (("BATCH", BATCH),),
        (
            ("trans_a", trans_a),
            ("conj_a", conj_a and is_complex),
            ("trans_b", trans_b),
            ("conj_b", conj_b and is_complex),
            ("accumulate", accumulate),  # beta is not zero: C is read as well
        ),
    )


def strides(problem: Problem) -> tuple[int, ...]:
    """A and B advance from product to product; of multiplications there is at least one per product."""
    return (1, 1, problem.BATCH)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if problem.dtype not in DTYPES:
        return f"ragged_gemm: dtype {problem.dtype} is not one of {', '.join(DTYPES)}"
    return None


def reference(A: list[Any], B: list[Any]) -> list[Any]:
    """The products without scaling, one by one."""
    return [a @ b for a, b in zip(A, B, strict=True)]
