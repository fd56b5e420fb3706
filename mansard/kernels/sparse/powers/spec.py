"""Which problems `powers` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....plan.problem import REAL, Problem
from ...common import operands, specs

OUTPUTS = ("all", "last", "combination")
INDICES = {"int32": 4, "int64": 8, "delta16": 2}  # bytes of a column
MOST_POWERS = 16  # of a persistent launch: it keeps a table
CHUNK = 32  # rows of a chunk on GPUs: a warp
LONG = ("ROWS", "NNZ")
SHAPES: dict[str, tuple[str, str]] = {}  # vectors have no gaps
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str, ROWS: int, NNZ: int, P: int, *, values: str | None = None, index: str = "int32", C: int = CHUNK,
    NVECS: int = 1, shifted: bool = False, three_term: bool = False, output: str = "all", sets: int = 1,
    ragged: bool = True,
) -> Problem:  # fmt: skip
    """v_k = alpha A v_(k-1) + beta v_(k-1) + gamma v_(k-2), k = 1 .. P, for a square SELL matrix and NVECS vectors.

    `shifted`, `three_term`: whether some beta, some gamma is not zero. `output`: all powers, the last one, or `sets`
    linear combinations of v_0 .. v_P. `ragged`: whether rows of a chunk differ in length.
    """
    sizes = (("ROWS", ROWS), ("NNZ", NNZ), ("P", P), ("NVECS", NVECS))
    traits = (
        ("values", values or dtype), ("index", index), ("C", C), ("shifted", shifted), ("three_term", three_term),
        ("output", output), ("sets", sets), ("ragged", ragged),
    )  # fmt: skip
    return Problem("powers", dtype, sizes, traits)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.values not in (problem.dtype, REAL[problem.dtype], *_narrower(problem.dtype)):
        return f"powers: values of {problem.values} are not as narrow as vectors of {problem.dtype}"
    if problem.index not in INDICES:
        return f"powers: index {problem.index} is not one of {', '.join(INDICES)}"
    if problem.P < 1:
        return f"powers: P={problem.P}: there is nothing to compute"
    return None


def _narrower(dtype: str) -> tuple[str, ...]:
    return {"float64": ("float32",), "complex128": ("complex64", "float32")}.get(dtype, ())


def strides(problem: Problem) -> tuple[int, ...]:
    """Vectors are dense: there is nothing to say about them."""
    return ()


def reference(A: Any, x: Any, coefficients: Any) -> Any:
    """All powers, by an array library; `coefficients` are rows (alpha, beta, gamma), one per step. What is multiplied
    by zero is left out, whatever it is."""
    powers = [x]
    for alpha, beta, gamma in coefficients:
        following = alpha * (A @ powers[-1])
        following = following + beta * powers[-1] if beta != 0 else following
        powers.append(following + gamma * powers[-2] if gamma != 0 else following)
    return powers
