"""Which problems `bidiagonal` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....plan.problem import Problem
from ...common import operands
from ..two_sided import reductions
from ..two_sided.reductions import reflection

LONG = ("BATCH",)  # a record answers for any number of matrices
SHAPES: dict[str, tuple[str, str]] = {}  # operands with a pitch: none, strides of A are arguments of the kernel
POINTERS = ("A", "U", "TAU_U", "V", "TAU_V", "D", "E", "PHASE_U", "PHASE_V", "SCALE", "INFO")
shape = partial(operands.shape, SHAPES)
strides = reductions.strides
refusal = reductions.refusal


def problem(dtype: str, N: int, BATCH: int, *, want: str = "vectors", stack_a: str = "packed") -> Problem:
    """s A = Qu B Qv^H for a stack of N x N matrices:

    D, E      diagonal of the real B, and the entries right of it; the last entry of E has no meaning
    U, TAU_U  row k of U: u_k at the columns j >= k; H_k = I - TAU_U_k u_k u_k^H, k < N - 1
    V, TAU_V  row k of V: w_k at the columns j > k; G_k = I - TAU_V_k w_k w_k^H, k < N - 2
    PHASE_U, PHASE_V  for complex dtypes: Qu = H_0 H_1 ... diag(PHASE_U), Qv = G_0 G_1 ... diag(PHASE_V)
    SCALE     s, the power of two that brings the largest real or imaginary part of A to [0.5, 1); 1 for A = 0
    INFO      0, or N + 1 where A is not finite: D is NaN then

    All are stacks without gaps, [BATCH][N][N] (U, V), [BATCH][N] or [BATCH]. want=values writes D, E, SCALE and INFO
    alone. A is packed (row-major without gaps) or strided: matrix, row and column stride are arguments of the kernel.
    """
    return Problem("bidiagonal", dtype, (("N", N), ("BATCH", BATCH)), (("want", want), ("stack_a", stack_a)))


def reference(A: Any) -> tuple[Any, Any, Any]:
    """Qu, B and Qv in NumPy, in double precision: A = Qu B Qv^H, without scaling; B is complex where A is."""
    B = np.array(A, "complex128" if np.iscomplexobj(A) else "float64")
    N = B.shape[-1]
    left, right = (np.broadcast_to(np.eye(N, dtype=B.dtype), B.shape).copy() for _ in range(2))
    for k in range(N - 1):
        H = np.stack([reflection(x) for x in B[:, k:, k]])
        B[:, k:], left[:, :, k:] = H @ B[:, k:], left[:, :, k:] @ H
        G = np.stack([reflection(x.conj()) for x in B[:, k, k + 1 :]])
        B[:, :, k + 1 :], right[:, :, k + 1 :] = B[:, :, k + 1 :] @ G, right[:, :, k + 1 :] @ G
    return left, B, right
