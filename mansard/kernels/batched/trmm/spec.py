"""Which problems `trmm` accepts, and what the right answer is."""

from __future__ import annotations

from typing import Any

from ....plan.problem import Problem
from ...common import specs
from ..trsm import spec as systems
from ..trsm.spec import ALIKE, LONG, SHAPES, STACKS, shape, strides

__all__ = ["ALIKE", "LONG", "SHAPES", "STACKS", "problem", "reference", "refusal", "shape", "strides"]

WIDEST = 512  # order of the triangles: beyond it the columns of B do not fit into shared memory


def problem(dtype: str, N: int, NRHS: int, BATCH: int, **given: Any) -> Problem:
    """X = alpha op(A) B (`left`: B and X are N x NRHS) or X = alpha B op(A) (`right`: they are NRHS x N).

    Sizes and traits are those of the triangular system with the same matrices (`trsm`); X may be B.
    """
    system = systems.problem(dtype, N, NRHS, BATCH, **given)
    return Problem("trmm", system.dtype, system.sizes, system.traits)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.N > WIDEST:
        return f"trmm: triangles of order {problem.N}: beyond {WIDEST} a product of whole matrices does better"
    return None


def reference(
    A: Any, B: Any, alpha: complex = 1, side: str = "left", uplo: str = "lower", trans: str = "N", unit: bool = False
) -> Any:
    """The answer in NumPy, row by row, in the operands' own precision; entries that BLAS does not read are not used."""
    if side == "right":
        turned = {"N": "T", "T": "N", "C": "R", "R": "C"}[trans]
        return reference(A, B.swapaxes(-1, -2), alpha, "left", uplo, turned, unit).swapaxes(-1, -2)
    E, X = A.swapaxes(-1, -2) if trans in "TC" else A, alpha * B
    E = E.conj() if trans in "CR" else E
    lower = (uplo == "lower") == (trans in "NR")
    for row in range(E.shape[-1] - 1, -1, -1) if lower else range(E.shape[-1]):
        beside = slice(0, row) if lower else slice(row + 1, None)
        if not unit:
            X[..., row, :] *= E[..., row, row, None]
        X[..., row, :] += (E[..., row, beside][..., None, :] @ X[..., beside, :])[..., 0, :]
    return X
