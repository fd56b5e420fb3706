"""Which problems `back_transform` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....plan.problem import Problem
from ...common import operands, specs

WIDEST = 512  # rows; registers of a thread, or of the few threads that share a row
LONG = ("BATCH",)  # a record answers for any number of matrices
SHAPES: dict[str, tuple[str, str]] = {}  # all operands lie without gaps
SIDES = ("eigenvectors", "left", "right", "product")
POINTERS = ("V", "TAU", "PHASE", "D", "ROTATIONS", "RANGES", "COUNT", "W", "SCALE", "Z")
shape = partial(operands.shape, SHAPES)


def problem(dtype: str, N: int, BATCH: int, CAPACITY: int = 0, *, side: str = "eigenvectors") -> Problem:
    """Z = Q G_1 G_2 ..., columns in the order of the values: Q = H_0 H_1 ... diag(PHASE), G the recorded rotations.

    eigenvectors   V: row k has u_k at columns j > k and 1 / h_k at (k, k), k < N - 2; columns by ascending values
    left           V: row k has u_k at columns j >= k, k < N - 1; TAU: 1 / h_k; columns by descending moduli
    right          V: row k has u_k at columns j > k, k < N - 2; TAU; Z is the conjugate transpose, its rows by
                   descending moduli, and negative where the value is
    product        V as for eigenvectors, CAPACITY = 0; Z = Q X, where X (real, [BATCH][N][N]) takes the place of
                   ROTATIONS; Z may be X if it is real

    H_k = I - u_k u_k^H / h_k. V and Z are [BATCH][N][N]; TAU and D (values of `sweeps`, unsorted and with signs) are
    [BATCH][N], PHASE too (complex dtypes only). ROTATIONS, RANGES and COUNT as `sweeps` with the same CAPACITY writes
    them. W (may be null) receives the sorted values, divided by SCALE (if it is not null). With CAPACITY = 0 there are
    no rotations and no values: Z = Q, or Q^H. Matrices whose values are not finite become NaN.
    """
    return Problem("back_transform", dtype, (("N", N), ("BATCH", BATCH), ("CAPACITY", CAPACITY)), (("side", side),))


def reflectors(N: int, side: str) -> int:
    """Number of reflectors in Q."""
    return N - 1 if side == "left" else max(0, N - 2)


def strides(problem: Problem) -> tuple[int, ...]:
    """Nothing: all operands lie without gaps."""
    return ()


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.side not in SIDES:
        return f"back_transform: side={problem.side!r} is not one of {', '.join(SIDES)}"
    if problem.side == "product" and problem.CAPACITY:
        return "back_transform: a product has no rotations: CAPACITY is 0"
    if not 1 <= problem.N <= WIDEST:
        return f"back_transform: {problem.N} rows: from 1 to {WIDEST}"
    return None


def reference(V: Any, tau: Any = None, phase: Any = None, side: str = "eigenvectors") -> Any:
    """Q (of the right side Q^H) in NumPy, without rotations."""
    N = V.shape[1]
    Q = np.broadcast_to(np.eye(N, dtype=V.dtype), V.shape).copy()
    for k in range(reflectors(N, side)):
        u = np.where(np.arange(N) >= k + (side != "left"), V[:, k], 0)
        inverse = V[:, k, k].real if side in ("eigenvectors", "product") else tau[:, k]
        Q -= np.einsum("bij,bj,bk->bik", Q, u, u.conj()) * inverse[:, None, None]
    Q = Q if phase is None else Q * phase[:, None]
    return Q.conj().swapaxes(1, 2) if side == "right" else Q
