"""The one factorization that kernels do: A = L L^H of a lower triangle.

The transpose of a Hermitian matrix is its conjugate, so the upper triangle of A is, with rows and columns exchanged,
the lower triangle of conj(A), whose factor is the transpose of U. Only right-hand sides have to be conjugated then.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ....plan.problem import Problem
from ...common import operands
from . import spec


def turned(problem: Problem, name: str) -> bool:
    """Whether what kernels call a row of the operand is a column of the call's."""
    return name in "af" and problem.uplo == "upper"


def conjugated(problem: Problem) -> bool:
    """Whether right-hand sides and solutions are the conjugates of the call's."""
    return bool(problem.uplo == "upper" and problem.is_complex)


@lru_cache(maxsize=4096)
def view(problem: Problem, name: str) -> Problem:
    """The operand as kernels see it, by itself, as the C of a problem. Operands that are not there look like A, or like
    one right-hand side."""
    rows, columns = spec.shape(problem, name)
    if name not in spec.operands(problem):
        return view(problem, "a") if name == "f" else operands.alone(problem, operands.Operand("col"), (rows, 1))
    one = operands.as_column(operands.of(problem, name, turned(problem, name)), (rows, columns))
    if spec.is_ragged(problem):
        one = replace(one, stack="pointers")
    return operands.alone(problem, one, (rows, columns))
