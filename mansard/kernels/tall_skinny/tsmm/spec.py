"""Which problems `tsmm` accepts, and what the right answer is."""

from __future__ import annotations

from typing import Any

from ....plan.problem import DTYPES, Problem

WIDEST = 128
LONG = ("K",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("K", "M"), "w": ("K", "N")}  # rows and columns of the operands that have a pitch


def problem(
    dtype: str,
    M: int,
    N: int,
    K: int,
    *,
    layout_a: str = "row",
    layout_w: str = "row",
    pitch_a: int | None = None,
    pitch_w: int | None = None,
    aligned: bool = True,
    in_place: bool = False,
    conj: bool = False,
) -> Problem:
    """A tsmm problem; layouts are `row`, `col` or `any`, pitches the distance between rows (or columns)."""
    return Problem(
        "tsmm",
        dtype,
        (("M", M), ("N", N), ("K", K)),
        (
            ("layout_a", layout_a),
            ("layout_w", layout_w),
            ("pitch_a", (M if layout_a == "row" else K) if pitch_a is None else pitch_a),
            ("pitch_w", (N if layout_w == "row" else K) if pitch_w is None else pitch_w),
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
