"""Which problems `gemm` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

from ....plan.problem import Problem
from ...common import operands, specs

WIDEST = 256
LONG = ("BATCH",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("M", "K"), "b": ("K", "N"), "c": ("M", "N")}  # rows and columns of the operands that have a pitch
STACKS = ("packed", "strided", "shared", "pointers", "interleaved")
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str,
    M: int,
    N: int,
    K: int,
    BATCH: int,
    *,
    aligned: bool = True,
    conj_a: bool = False,
    conj_b: bool = False,
    accumulate: bool = False,
    **given: Any,
) -> Problem:
    """C = alpha A B + beta C for each of BATCH matrices: A is M x K, B K x N, C M x N.

    `given` are layouts, pitches and stacks (`common/operands.py`); a transposed operand is `col`. What is not packed
    says so, and only then.
    """
    found = operands.resolved({"a": (M, K), "b": (K, N), "c": (M, N)}, given, rows_of_any=True)
    is_complex = dtype.startswith("complex")
    return Problem(
        "gemm",
        dtype,
        (("M", M), ("N", N), ("K", K), ("BATCH", BATCH)),
        (
            *operands.traits(found),
            ("aligned", aligned),  # every matrix starts on a 16-byte boundary, or (packed) the stack does
            ("conj_a", conj_a and is_complex),
            ("conj_b", conj_b and is_complex),
            ("accumulate", accumulate),  # beta is not zero: C is read as well
        ),
    )


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, B and C: matrix, rows, columns, in elements; matrices as close as their alignment allows."""
    sizes = {side: shape(problem, side) for side in SHAPES}
    return tuple(chain.from_iterable(operands.strides(problem, *item, rows_of_any=True) for item in sizes.items()))


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    widest = max(problem.M, problem.N, problem.K)
    if widest > WIDEST:
        return f"gemm: {widest} rows or columns: beyond {WIDEST} a general matrix product does better"
    return None


def reference(
    A: Any, B: Any, C: Any = None, alpha: complex = 1, beta: complex = 0, conj_a: bool = False, conj_b: bool = False
) -> Any:
    """The answer in NumPy, in the operands' own precision."""
    product = alpha * ((A.conj() if conj_a else A) @ (B.conj() if conj_b else B))
    return specs.accumulated(product, C, beta)
