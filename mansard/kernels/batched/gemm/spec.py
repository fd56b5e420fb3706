"""Which problems `gemm` accepts, and what the right answer is."""

from __future__ import annotations

from typing import Any

from ....plan.problem import DTYPES, Problem

WIDEST = 256
LONG = ("BATCH",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("M", "K"), "b": ("K", "N"), "c": ("M", "N")}  # rows and columns of the operands that have a pitch
STACKS = ("packed", "strided", "shared", "pointers", "interleaved")


def problem(
    dtype: str,
    M: int,
    N: int,
    K: int,
    BATCH: int,
    *,
    layout_a: str = "row",
    layout_b: str = "row",
    layout_c: str = "row",
    pitch_a: int | None = None,
    pitch_b: int | None = None,
    pitch_c: int | None = None,
    stack_a: str = "packed",
    stack_b: str = "packed",
    stack_c: str = "packed",
    aligned: bool = True,
    conj_a: bool = False,
    conj_b: bool = False,
    accumulate: bool = False,
) -> Problem:
    """C = alpha A B + beta C for each of BATCH matrices: A is M x K, B K x N, C M x N.

    Layouts are `row`, `col` or `any` (a transposed operand is `col`), pitches the distance between rows (or columns).
    A stack is `packed` (row after row and matrix after matrix without a gap), `strided`, `shared` (one matrix serves
    all), `pointers` (an array of addresses) or `interleaved` (each entry of L matrices side by side; the pitch is L
    times the width). What is not packed says so, and only then.
    """
    is_complex = dtype.startswith("complex")
    return Problem(
        "gemm",
        dtype,
        (("M", M), ("N", N), ("K", K), ("BATCH", BATCH)),
        (
            ("layout_a", layout_a),
            ("layout_b", layout_b),
            ("layout_c", layout_c),
            ("pitch_a", (K if layout_a == "row" else M) if pitch_a is None else pitch_a),
            ("pitch_b", (N if layout_b == "row" else K) if pitch_b is None else pitch_b),
            ("pitch_c", (N if layout_c == "row" else M) if pitch_c is None else pitch_c),
            ("stack_a", stack_a),
            ("stack_b", stack_b),
            ("stack_c", stack_c),
            ("aligned", aligned),  # every matrix starts on a 16-byte boundary, or (packed) the stack does
            ("conj_a", conj_a and is_complex),
            ("conj_b", conj_b and is_complex),
            ("accumulate", accumulate),  # beta is not zero: C is read as well
        ),
    )


def strides(problem: Problem) -> tuple[int, ...]:
    """Of A, B and C: matrix, rows, columns, in elements; matrices as close as their alignment allows."""
    found: tuple[int, ...] = ()
    for side, sizes in SHAPES.items():
        rows, columns = (getattr(problem, name) for name in sizes)
        stack, pitch = getattr(problem, f"stack_{side}"), getattr(problem, f"pitch_{side}")
        lines, width = (rows, columns) if getattr(problem, f"layout_{side}") == "row" else (columns, rows)
        matrix, step = lines * pitch, 16 // problem.itemsize
        if stack == "strided" and problem.aligned and step > 1:
            matrix = -(-matrix // step) * step
        row, column = problem.strides(side)
        side_by_side = pitch // width if stack == "interleaved" else 1
        found += (0 if stack == "shared" else matrix, max(row, side_by_side), max(column, side_by_side))
    return found


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if problem.dtype not in DTYPES:
        return f"gemm: dtype {problem.dtype} is not one of {', '.join(DTYPES)}"
    widest = max(problem.M, problem.N, problem.K)
    if widest > WIDEST:
        return f"gemm: {widest} rows or columns: beyond {WIDEST} a general matrix product does better"
    return None


def reference(
    A: Any, B: Any, C: Any = None, alpha: complex = 1, beta: complex = 0, conj_a: bool = False, conj_b: bool = False
) -> Any:
    """The answer in NumPy, in the operands' own precision."""
    product = alpha * ((A.conj() if conj_a else A) @ (B.conj() if conj_b else B))
    return product if C is None or beta == 0 else product + beta * C
