"""The CPU half of the space, which is all of it: rows of one matrix in vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Numbers, Range
from ...common.configs import OnCpu


@dataclass(frozen=True)
class Rows(OnCpu):
    """One matrix after the other, vectors along its rows; any dtype and size."""

    VARIANT: ClassVar[str] = "rows"
    ROWS: Annotated[int, Numbers(1, 2, 4, 8)] = 4  # rows that share the loads of the row they are updated by
    # rows and columns beyond which LAPACK answers: it keeps blocks in the caches, these kernels do not
    WIDEST: Annotated[int, Range(1, 1 << 12)] = 128


def default(problem: Problem, device: Device) -> Rows:
    """As many rows at a time as registers hold multipliers of. With complex128 LAPACK is faster sooner: it takes three
    quarters of the time for systems of 128 unknowns."""
    rows = 2 if problem.is_complex and device.vector_bytes == 32 else 4
    return Rows(rows, 96 if problem.itemsize == 16 else 128)


def reals(problem: Problem, rows: int, columns: int, beside: int) -> int:
    """Reals of a thread's workspace for a matrix of so many rows and columns with `beside` columns in rows of their own
    vectors: as kernels lay them out (rows.hpp), with room for vectors of 64 bytes whatever the machine's are."""
    real = problem.itemsize // (2 if problem.is_complex else 1)
    words, line = (2 if problem.is_complex else 1), 64 // real
    wide = sum(-(-one * words // line) * line + line for one in (columns, beside))
    return -(-((rows + 3) * wide + 10 * (max(rows, columns) + line)) // (2 * line)) * 2 * line  # threads share no line
