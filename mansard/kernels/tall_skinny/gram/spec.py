"""Which problems `gram` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....plan.problem import Problem
from ...common import operands, specs

WIDEST = 128
LONG = ("K",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("K", "M"), "b": ("K", "N")}  # rows and columns of the operands that have a pitch
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str,
    M: int,
    N: int,
    K: int,
    *,
    aligned: bool = True,
    same: bool = False,
    conj: bool = True,
    deterministic: bool = True,
    **given: Any,
) -> Problem:
    """A gram problem; `given` are layouts and pitches (`common/operands.py`)."""
    flags = {
        "aligned": aligned,  # both operands start on a 16-byte boundary
        "same": same,  # B is A
        "conj": conj,
        "deterministic": deterministic,
    }
    return specs.with_tall_operand("gram", dtype, {"M": M, "N": N, "K": K}, SHAPES, given, "ab", flags)


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, B and a fresh C: rows then columns, in elements."""
    return (*problem.strides("a"), *problem.strides("b"), problem.N, 1)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    return specs.unknown_dtype(problem) or specs.too_wide(problem, WIDEST, "M", "N")


def reference(A: Any, B: Any, C: Any = None, alpha: complex = 1, beta: complex = 0, conj: bool = True) -> Any:
    """The answer in NumPy, in the operands' own precision."""
    return specs.accumulated(alpha * ((A.conj() if conj else A).T @ B), C, beta)


def is_contiguous(problem: Problem) -> bool:
    """Both operands are row-major without gaps, so that rows can be folded."""
    return bool(
        (problem.layout_a == problem.layout_b == "row")
        and problem.pitch_a == problem.M
        and problem.pitch_b == problem.N
    )
