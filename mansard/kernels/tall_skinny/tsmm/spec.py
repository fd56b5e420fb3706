"""Which problems `tsmm` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....plan.problem import Problem
from ...common import operands, specs

WIDEST = 128
LONG = ("K",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("K", "M"), "w": ("K", "N")}  # rows and columns of the operands that have a pitch
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str,
    M: int,
    N: int,
    K: int,
    *,
    aligned: bool = True,
    in_place: bool = False,
    conj: bool = False,
    **given: Any,
) -> Problem:
    """A tsmm problem; `given` are layouts and pitches (`common/operands.py`)."""
    flags = {
        "aligned": aligned,  # A and W start on 16-byte boundaries
        "in_place": in_place,  # W is A
        "conj": conj,  # of C
    }
    return specs.with_tall_operand("tsmm", dtype, {"M": M, "N": N, "K": K}, SHAPES, given, "aw", flags)


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, C and W: rows then columns, in elements."""
    return (*problem.strides("a"), problem.N, 1, *problem.strides("w"))


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    return specs.unknown_dtype(problem) or specs.too_wide(problem, WIDEST, "M", "N")


def reference(A: Any, C: Any, W: Any = None, alpha: complex = 1, beta: complex = 0, conj: bool = False) -> Any:
    """The answer in NumPy, in the operands' own precision."""
    return specs.accumulated(alpha * (A @ (C.conj() if conj else C)), W, beta)
