"""The one factorization that kernels do: A = L L^H of a lower triangle.

The transpose of a Hermitian matrix is its conjugate, so the upper triangle of A is, with rows and columns exchanged,
the lower triangle of conj(A), whose factor is the transpose of U. Only right-hand sides have to be conjugated then.
"""

from __future__ import annotations

from functools import lru_cache

from ....plan.problem import Problem
from ...batched.gemm import spec as gemm_spec
from . import spec

_TURNED = {"row": "col", "col": "row", "any": "any"}


def turned(problem: Problem, name: str) -> bool:
    """Whether what kernels call a row of the operand is a column of the call's."""
    return name in "af" and problem.uplo == "upper"


def conjugated(problem: Problem) -> bool:
    """Whether right-hand sides and solutions are the conjugates of the call's."""
    return bool(problem.uplo == "upper" and problem.is_complex)


@lru_cache(maxsize=4096)
def view(problem: Problem, name: str) -> Problem:
    """The operand as kernels see it: the C of a product, so that gemm's images serve here as well. Operands that are
    not there look like A, or like one right-hand side."""
    rows, columns = spec.shape(problem, name)
    if name not in spec.operands(problem):
        if name == "f":
            return view(problem, "a")
        return gemm_spec.problem(problem.dtype, rows, 1, 1, problem.BATCH, layout_c="col", aligned=problem.aligned)
    layout, pitch = getattr(problem, f"layout_{name}"), getattr(problem, f"pitch_{name}")
    layout = _TURNED[layout] if turned(problem, name) else layout
    if columns == 1 and layout == "row" and pitch == 1:  # rows of one entry without gaps are a column
        layout, pitch = "col", rows
    return gemm_spec.problem(
        problem.dtype, rows, columns, 1, problem.BATCH, layout_c=layout, pitch_c=pitch,
        stack_c="pointers" if spec.is_ragged(problem) else getattr(problem, f"stack_{name}"), aligned=problem.aligned,
    )  # fmt: skip
