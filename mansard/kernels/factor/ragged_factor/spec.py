"""Which problems `ragged_factor` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....plan.problem import DTYPES, Problem
from ...common import operands

LONG = ("BATCH",)
SHAPES: dict[str, tuple[str, str]] = {}  # sizes are in a table, and matrices have no gaps
shape = partial(operands.shape, SHAPES)

# What a method gives, in the order of the kernels' `want`.
WANTS = {
    "lu": ("factor", "solve", "inverse", "determinant", "logdet"),
    "cholesky": ("factor", "solve"),
    "qr": ("raw", "r", "reduced", "complete"),
    "triangle": ("solve",),
    "copy": ("copy",),  # on GPUs, as the next one
    "unpad": ("unpad",),
}


def problem(dtype: str, BATCH: int, *, method: str = "lu") -> Problem:
    """BATCH matrices that are factored (`lu`, `cholesky`, `qr`) or solved with (`triangle`), each of its own size; or
    BATCH pieces of matrices that are copied between ragged batches and stacks (`copy`); or BATCH matrices of a stack
    whose padding has values, and vectors, that are left out (`unpad`).

    Matrices lie row after row without gaps, each anywhere in its operand's memory; a table that kernels read says where
    they are and of what size. What is wanted of them is an argument of the kernel (`WANTS`).
    """
    return Problem("ragged_factor", dtype, (("BATCH", BATCH),), (("method", method),))


def strides(problem: Problem) -> tuple[int, ...]:
    """Arguments of a launch: the result wanted, flags, reals of a thread's workspace, least number of multiply-adds."""
    return (0, 0, 64, problem.BATCH)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if problem.dtype not in DTYPES:
        return f"ragged_factor: dtype {problem.dtype} is not one of {', '.join(DTYPES)}"
    if problem.method not in WANTS:
        return f"ragged_factor: method={problem.method!r} is not one of {', '.join(WANTS)}"
    return None


def reference(A: list[Any], method: str = "cholesky") -> list[Any]:
    """Cholesky factors, or the R of Q R, matrix by matrix."""
    if method == "cholesky":
        return [np.linalg.cholesky(one) for one in A]
    return [np.linalg.qr(one, "r") for one in A]
