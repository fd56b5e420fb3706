"""Which problems `rank_k` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ....plan.problem import Problem
from ...common import operands, specs

WIDEST = 512  # rows of A: of more, every block would copy all rows for a small part of the triangle
LONG = ("BATCH",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("N", "K"), "b": ("N", "K"), "c": ("N", "N")}  # rows and columns of the operands
STACKS = ("packed", "strided", "shared", "pointers")
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str,
    N: int,
    K: int,
    BATCH: int,
    *,
    part: str = "full",
    two: bool = False,
    aligned: bool = True,
    conj_a: bool = False,
    conj_b: bool = False,
    accumulate: bool = False,
    **given: Any,
) -> Problem:
    """C = alpha A A' + beta C, or (`two`) alpha A B' + its transpose + beta C, for each of BATCH matrices.

    A and B are N x K; a transposed factor is `col`. `conj_a` and `conj_b` conjugate the first and the second factor of
    a product; where one of them does, ' is the adjoint, and C is Hermitian. Of C the triangle `part` is written, or
    (`full`) all of it. With one factor B is A.
    """
    sizes = {"a": (N, K), "b": (N, K), "c": (N, N)}
    found = operands.resolved(sizes, given, like={"b": "a"}, rows_of_any=True)
    is_complex = dtype.startswith("complex")
    return Problem(
        "rank_k",
        dtype,
        (("N", N), ("K", K), ("BATCH", BATCH)),
        (
            ("part", part),
            ("two", two),
            *operands.traits(found),
            ("aligned", aligned),  # every matrix starts on a 16-byte boundary, or (packed) the stack does
            ("conj_a", conj_a and is_complex),
            ("conj_b", conj_b and is_complex),
            ("accumulate", accumulate),  # beta is not zero: C is read as well
        ),
    )


def strides(problem: Problem) -> tuple[int, ...]:
    """Matrix, row and column strides of A, B and C in elements; matrices as close as their alignment allows."""
    sizes = {side: shape(problem, side) for side in SHAPES}
    return tuple(chain.from_iterable(operands.strides(problem, *item, rows_of_any=True) for item in sizes.items()))


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.N > WIDEST:
        return f"rank_k: {problem.N} rows: beyond {WIDEST} a general matrix product does better"
    return None


def is_hermitian(problem: Problem) -> bool:
    """Whether the result is Hermitian; of real numbers it is symmetric."""
    return bool(problem.conj_a != problem.conj_b)


def reference(
    A: Any,
    B: Any = None,
    C: Any = None,
    alpha: complex = 1,
    beta: complex = 0,
    conj_a: bool = False,
    conj_b: bool = False,
    part: str = "full",
) -> Any:
    """The answer in NumPy, in the operands' own precision; the other triangle is C's, or zero where there is none."""
    right = (A if B is None else B).swapaxes(-1, -2)
    product = alpha * ((A.conj() if conj_a else A) @ (right.conj() if conj_b else right))
    if B is not None:
        turned = product.swapaxes(-1, -2)
        product = product + (turned.conj() if conj_a != conj_b else turned)
    found = specs.accumulated(product, C, beta)
    if conj_a != conj_b:  # a real diagonal, whatever the old one was
        for i in range(found.shape[-1]):
            found[..., i, i] = found[..., i, i].real + 0  # CuPy takes a view of the same memory for the same numbers
    if part == "full":
        return found
    old = np.zeros_like(found) if C is None else C
    return np.tril(found) + np.triu(old, 1) if part == "lower" else np.triu(found) + np.tril(old, -1)
