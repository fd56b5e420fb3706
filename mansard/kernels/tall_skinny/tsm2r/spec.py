"""Which problems `tsm2r` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....plan.problem import Problem
from ...common import operands, specs

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
    shapes = {**SHAPES, "b": ("K", "N"), "c": ("M", "N")}
    flags = {"aligned": aligned, "conj_a": conj_a, "conj_b": conj_b}  # aligned: A starts on a 16-byte boundary
    return specs.with_tall_operand("tsm2r", dtype, {"M": M, "N": N, "K": K}, shapes, given, "a", flags)


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, B and C: rows then columns, in elements."""
    b = (1, problem.K) if problem.layout_b == "col" else (problem.N, 1)
    c = (1, problem.M) if problem.layout_c == "col" else (problem.N, 1)
    return (*problem.strides("a"), *b, *c)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    return specs.unknown_dtype(problem) or specs.too_wide(problem, WIDEST, "N")


def reference(
    A: Any, B: Any, C: Any = None, alpha: complex = 1, beta: complex = 0, conj_a: bool = False, conj_b: bool = False
) -> Any:
    """The answer in NumPy, in the operands' own precision."""
    return specs.accumulated(alpha * ((A.conj() if conj_a else A) @ (B.conj() if conj_b else B)), C, beta)
