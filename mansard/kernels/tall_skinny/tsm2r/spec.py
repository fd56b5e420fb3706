"""Which problems `tsm2r` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....plan.problem import DTYPES, Problem
from ...common import operands

WIDEST = 64
LONG = ("M", "K")  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("M", "K")}  # rows and columns of the operands that have a pitch
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str,
    M: int,
    N: int,
    K: int,
    *,
    aligned: bool = True,
    conj_a: bool = False,
    conj_b: bool = False,
    **given: Any,
) -> Problem:
    """A tsm2r problem: A is M x K, B K x N; `given` are layouts and the pitch of A (`common/operands.py`). Only A is
    large, so how far apart rows of B and C lie is of no consequence."""
    shapes = {"a": (M, K), "b": (K, N), "c": (M, N)}
    found = operands.resolved(shapes, given, kinds=("layout", "pitch"), rows_of_any=True)
    is_complex = dtype.startswith("complex")
    return Problem(
        "tsm2r",
        dtype,
        (("M", M), ("N", N), ("K", K)),
        (
            *operands.traits(found, layout="abc", pitch="a"),
            ("aligned", aligned),  # A starts on a 16-byte boundary
            ("conj_a", conj_a and is_complex),
            ("conj_b", conj_b and is_complex),
        ),
    )


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, B and C: rows then columns, in elements."""
    b = (1, problem.K) if problem.layout_b == "col" else (problem.N, 1)
    c = (1, problem.M) if problem.layout_c == "col" else (problem.N, 1)
    return (*problem.strides("a"), *b, *c)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if problem.dtype not in DTYPES:
        return f"tsm2r: dtype {problem.dtype} is not one of {', '.join(DTYPES)}"
    if problem.N > WIDEST:
        return f"tsm2r: N={problem.N}: wider than {WIDEST}, where a general matrix product does better"
    return None


def reference(
    A: Any, B: Any, C: Any = None, alpha: complex = 1, beta: complex = 0, conj_a: bool = False, conj_b: bool = False
) -> Any:
    """The answer in NumPy, in the operands' own precision."""
    product = alpha * ((A.conj() if conj_a else A) @ (B.conj() if conj_b else B))
    return product if C is None or beta == 0 else product + beta * C
