"""Which problems `tridiagonal` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....plan.problem import REAL, Problem
from ...common import operands
from ..two_sided import reductions
from ..two_sided.reductions import reflection

LONG = ("BATCH",)  # a record answers for any number of matrices
SHAPES: dict[str, tuple[str, str]] = {}  # operands with a pitch: none, strides of A are arguments of the kernel
POINTERS = ("A", "V", "D", "E", "PHASE", "SCALE", "INFO")
TRIANGLES = ("lower", "upper")
shape = partial(operands.shape, SHAPES)
strides = reductions.strides


def problem(
    dtype: str, N: int, BATCH: int, *, want: str = "vectors", uplo: str = "lower", stack_a: str = "packed"
) -> Problem:  # fmt: skip
    """s A = Q T Q^H for a stack of Hermitian N x N matrices, of which the triangle `uplo` is read:

    D, E   diagonal and off-diagonal of the real T; the last entry of E has no meaning
    V      row k: 1 / h_k at column k, u_k at the columns j > k; H_k = I - u_k u_k^H / h_k
    PHASE  for complex dtypes: Q = H_0 H_1 ... H_(N-3) diag(PHASE)
    SCALE  s, the power of two that brings the largest real or imaginary part of A to [0.5, 1); 1 for A = 0
    INFO   0, or N + 1 where A is not finite: D is NaN then

    All are stacks without gaps, [BATCH][N][N] (V), [BATCH][N] or [BATCH]. want=values writes neither V nor PHASE. A is
    packed (row-major without gaps) or strided: matrix, row and column stride are arguments of the kernel.
    """
    traits = (("want", want), ("uplo", uplo), ("stack_a", stack_a))
    return Problem("tridiagonal", dtype, (("N", N), ("BATCH", BATCH)), traits)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if problem.uplo not in TRIANGLES:
        return f"tridiagonal: uplo={problem.uplo!r} is not one of {', '.join(TRIANGLES)}"
    return reductions.refusal(problem)


def reference(A: Any, uplo: str = "lower") -> tuple[Any, Any, Any]:
    """Q, D and E in NumPy, in double precision: A = Q T Q^H, column by column, without scaling."""
    A = np.asarray(A, "complex128" if np.iscomplexobj(A) else "float64")
    half = np.tril(A, -1) if uplo == "lower" else np.triu(A, 1).conj().swapaxes(-1, -2)
    T = half + half.conj().swapaxes(-1, -2) + np.real(A) * np.eye(A.shape[-1])
    Q = np.broadcast_to(np.eye(A.shape[-1], dtype=A.dtype), A.shape).copy()
    for k in range(A.shape[-1] - 2):
        H = np.stack([reflection(x) for x in T[:, k + 1 :, k]])
        T[:, k + 1 :] = H @ T[:, k + 1 :]
        T[:, :, k + 1 :] = T[:, :, k + 1 :] @ H
        Q[:, :, k + 1 :] = Q[:, :, k + 1 :] @ H
    below = np.diagonal(T, -1, 1, 2)
    size = np.abs(below)
    turns = np.cumprod(np.where(size > 0, below / np.where(size > 0, size, 1), 1), 1)
    Q[:, :, 1:] *= turns[:, None]
    real = REAL[A.dtype.name]
    return Q, np.real(np.diagonal(T, 0, 1, 2)).astype(real), size.astype(real)
