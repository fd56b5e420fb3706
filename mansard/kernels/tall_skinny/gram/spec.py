"""Which problems `gram` accepts, and what the right answer is."""

from __future__ import annotations

from typing import Any

from ....plan.problem import DTYPES, Problem

WIDEST = 128
LONG = ("K",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("K", "M"), "b": ("K", "N")}  # rows and columns of the operands that have a pitch


def problem(
    dtype: str,
    M: int,
    N: int,
    K: int,
    *,
    layout_a: str = "row",
    layout_b: str = "row",
    pitch_a: int | None = None,
    pitch_b: int | None = None,
    aligned: bool = True,
    same: bool = False,
    conj: bool = True,
    deterministic: bool = True,
) -> Problem:
    """A gram problem; layouts are `row`, `col` or `any`, pitches the distance between rows (or columns)."""
    return Problem(
        "gram",
        dtype,
        (("M", M), ("N", N), ("K", K)),
        (
            ("layout_a", layout_a),
            ("layout_b", layout_b),
            ("pitch_a", (M if layout_a == "row" else K) if pitch_a is None else pitch_a),
            ("pitch_b", (N if layout_b == "row" else K) if pitch_b is None else pitch_b),
            ("aligned", aligned),  # both operands start on a 16-byte boundary
            ("same", same),  # B is A
            ("conj", conj and dtype.startswith("complex")),
            ("deterministic", deterministic),
        ),
    )


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, B and a fresh C: rows then columns, in elements."""
    return (*problem.strides("a"), *problem.strides("b"), problem.N, 1)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if problem.dtype not in DTYPES:
        return f"gram: dtype {problem.dtype} is not one of {', '.join(DTYPES)}"
    if max(problem.M, problem.N) > WIDEST:
        return f"gram: M={problem.M}, N={problem.N}: wider than {WIDEST}, where a general matrix product does better"
    return None


def reference(A: Any, B: Any, C: Any = None, alpha: complex = 1, beta: complex = 0, conj: bool = True) -> Any:
    """The answer in NumPy, in the operands' own precision."""
    product = alpha * ((A.conj() if conj else A).T @ B)
    return product if C is None or beta == 0 else product + beta * C


def is_contiguous(problem: Problem) -> bool:
    """Both operands are row-major without gaps, so that rows can be folded."""
    return bool(
        (problem.layout_a == problem.layout_b == "row")
        and problem.pitch_a == problem.M
        and problem.pitch_b == problem.N
    )
