"""Parts of `spec.py` that families share: problems with one tall operand, refusals, and the end of a reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...plan.problem import DTYPES, Problem
from . import operands


def with_tall_operand(
    operation: str,
    dtype: str,
    sizes: Mapping[str, int],
    shapes: Mapping[str, tuple[str, str]],
    given: Mapping[str, Any],
    pitches: Iterable[str],
    flags: Mapping[str, bool],
) -> Problem:
    """A product of matrices whose operands have a layout each, and a pitch if they are in `pitches`.

    `shapes` has the names of each operand's sizes, `given` the layouts and pitches that are not the default ones
    (`common/operands.py`), `flags` the other traits in their order; those named conj... are off for real numbers.
    """
    lengths = {name: (sizes[rows], sizes[columns]) for name, (rows, columns) in shapes.items()}
    found = operands.resolved(lengths, given, kinds=("layout", "pitch"), rows_of_any=True)
    is_complex = dtype.startswith("complex")
    other = ((name, flag and (is_complex or not name.startswith("conj"))) for name, flag in flags.items())
    return Problem(
        operation, dtype, tuple(sizes.items()), (*operands.traits(found, layout=tuple(shapes), pitch=pitches), *other)
    )


def unknown_dtype(problem: Problem) -> str | None:
    """Why there is no kernel for the problem's dtype, or None if there is."""
    if problem.dtype in DTYPES:
        return None
    return f"{problem.operation}: dtype {problem.dtype} is not one of {', '.join(DTYPES)}"


def too_wide(problem: Problem, widest: int, *names: str) -> str | None:
    """Why these sizes of a tall product are not for a kernel, or None if they are."""
    if max(getattr(problem, name) for name in names) <= widest:
        return None
    sizes = ", ".join(f"{name}={getattr(problem, name)}" for name in names)
    return f"{problem.operation}: {sizes}: wider than {widest}, where a general matrix product does better"


def accumulated(product: Any, C: Any, beta: complex) -> Any:
    """product + beta C; C is not read where beta is zero."""
    return product if C is None or beta == 0 else product + beta * C
