"""Who answers a two-sided factorization, with the reason."""

from __future__ import annotations

from math import prod

from ....arrays.types import Kind
from ....backends.base import Backend
from ....errors import UnsupportedProblem
from ....kernels.factor import qr
from ....kernels.family import Family
from ....plan.problem import Problem
from ....plan.route import Choice, Library
from ...stacks import Operand
from . import library as by_library
from .shapes import Shape, shape_of
from .task import Sizes, Task

_ROUTINE = "the array library, or LAPACK"


def problem_of(task: Task, dtype: str, sizes: Sizes, count: int) -> tuple[Family, Problem]:
    """The first kernel's family, and its problem for square matrices."""
    return qr.FAMILY, qr.spec.problem(dtype, *sizes, count, want="raw")


def shape_for(task: Task, a: Operand, chosen: Backend, kind: Kind, backend: str | None) -> Shape:
    """How rectangular matrices are treated."""
    is_reduction = "D" in task.parts
    sizes = Sizes(a.rows, a.columns)
    return shape_of(task, sizes, prod(a.shape), chosen.device.backend != "cuda", is_reduction)


def decide(task: Task, a: Operand, chosen: Backend, kind: Kind, backend: str | None) -> Choice:
    """The route of the square problem."""
    family, _ = problem_of(task, a.view.dtype, Sizes(a.rows, a.columns), prod(a.shape))
    refused = by_library.refusal(kind, task, a.view.dtype)
    if refused:
        raise UnsupportedProblem(f"driver='jacobi': {refused}; use driver='auto' or 'qr'")
    return Choice(family, Library(_ROUTINE, "there is no kernel for it"), "rule")
