"""Which problems `tsmm` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....plan.problem import DTYPES, Problem
from ...common import operands

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
    found = operands.resolved({"a": (K, M), "w": (K, N)}, given, kinds=("layout", "pitch"), rows_of_any=True)
    return Problem(
        "tsmm",
        dtype,
        (("M", M), ("N", N), ("K", K)),
        (
            *operands.traits(found, layout="aw", pitch="aw"),
            ("aligned", aligned),  # A and W start on 16-byte boundaries
            ("in_place", in_place),  # W is A
            ("conj", conj and dtype.startswith("complex")),  # of C
        ),
    )


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, C and W: rows then columns, in elements."""
    return (*problem.strides("a"), problem.N, 1, *problem.strides("w"))


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if problem.dtype not in DTYPES:
        return f"tsmm: dtype {problem.dtype} is not one of {', '.join(DTYPES)}"
    if max(problem.M, problem.N) > WIDEST:
        return f"tsmm: M={problem.M}, N={problem.N}: wider than {WIDEST}, where a general matrix product does better"
    return None


def reference(A: Any, C: Any, W: Any = None, alpha: complex = 1, beta: complex = 0, conj: bool = False) -> Any:
    """The answer in NumPy, in the operands' own precision."""
    product = alpha * (A @ (C.conj() if conj else C))
    return product if W is None or beta == 0 else product + beta * W
