"""Which problems `matmul_gram` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....plan.problem import Problem
from ...common import operands, specs
from ..tsmm import spec as tsmm

WIDEST, WIDEST_REAL = 128, 48  # columns of A; real columns of W, whose products must fit into registers
LONG = ("K",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("K", "M"), "w": ("K", "N")}  # rows and columns of the operands that have a pitch
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str,
    M: int,
    N: int,
    K: int,
    *,
    pitch_a: int | None = None,
    aligned: bool = True,
    in_place: bool = False,
    conj: bool = False,
) -> Problem:
    """A matmul_gram problem: A, D and W are row-major, W without gaps."""
    return Problem(
        "matmul_gram",
        dtype,
        (("M", M), ("N", N), ("K", K)),
        (
            ("layout_a", "row"),
            ("layout_w", "row"),
            ("pitch_a", M if pitch_a is None else pitch_a),
            ("pitch_w", N),
            ("aligned", aligned),  # A and W start on 16-byte boundaries
            ("in_place", in_place),  # W is A
            ("conj", conj and dtype.startswith("complex")),  # of C
        ),
    )


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, C and W: rows then columns, and of the rows of D, in elements."""
    return (*tsmm.strides(problem), problem.N)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    words = 2 if problem.is_complex else 1
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.M > WIDEST or problem.N * words > WIDEST_REAL:
        return f"matmul_gram: M={problem.M}, N={problem.N}: two passes are faster than sums that leave the registers"
    return None


def reference(
    A: Any, C: Any, D: Any = None, alpha: complex = 1, beta: complex = 0, conj: bool = False
) -> tuple[Any, Any]:
    """The answer in NumPy, in the operands' own precision."""
    product = tsmm.reference(A, C, D, alpha, beta, conj)
    return product, product.conj().T @ product
