"""Functions of singular values: pseudo-inverses, ranks, condition numbers, norms, polar factors, least squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....arrays.types import Array, Kind
from ....plan.problem import REAL
from ...batched.gemm_call import Form, multiply
from ..plan import factor
from ..task import Found, stacked, zeros
from ..task import Task as FactorTask
from .plan import compute, singular_of_hermitian
from .shapes import sparing
from .task import Task

_ADJOINTS = Form(True, True, True, True)
_LEFT_ADJOINT = Form(True, True)
_RIGHT_ADJOINT = Form(False, False, True, True)
SPECTRAL = (2, -2, "nuc")  # matrix norms by singular values


def singular(kind: Kind, A: Array, backend: str | None, hermitian: bool = False, driver: str = "auto") -> Found:
    """U, W and VH with as many columns (rows) as there are singular values."""
    task = Task("svd", driver=driver)
    return singular_of_hermitian(kind, task, A, backend) if hermitian else compute(task, kind, A, backend)


def values(kind: Kind, A: Array, backend: str | None, hermitian: bool = False) -> Array:
    """Singular values, descending; NaN where they could not be found."""
    task = Task("svdvals")
    found = singular_of_hermitian(kind, task, A, backend) if hermitian else compute(task, kind, A, backend)
    return found["W"]


def precision(kind: Kind, A: Array) -> float:
    """Unit roundoff times the larger size: relative cutoff for the rank of a matrix."""
    return float(np.finfo(REAL[kind.view(A, "a").dtype]).eps) * int(max(A.shape[-2:]))


def _per_matrix(number: Array) -> Array:
    """A number, or one for each matrix, beside a row of values."""
    number = np.asarray(number) if isinstance(number, list | tuple) else number
    return number[..., None] if getattr(number, "shape", ()) else number


def cut(kind: Kind, W: Array, rcond: Array) -> tuple[Array, Array]:
    """Reciprocals of the values above rcond times the largest, zero for the others; and which are above."""
    module = kind.module
    kept = _per_matrix(rcond) * W[..., :1] < W
    one = module.ones_like(W)
    return module.where(kept, one / module.where(kept, W, one), 0 * one), kept


def pseudo_inverse(
    kind: Kind, A: Array, rcond: Array, hermitian: bool, backend: str | None
) -> tuple[Array, Array]:  # fmt: skip
    """V S^+ U^H, and `info`."""
    A = stacked(kind, A)
    if 0 in A.shape:
        *lead, M, N = A.shape
        return zeros(kind, (*lead, N, M), kind.view(A, "a").dtype, A), zeros(kind, tuple(lead), "int32", A)
    found = singular(kind, A, backend, hermitian)
    inverse, _ = cut(kind, found["W"], precision(kind, A) if rcond is None else rcond)
    by = sparing(kind, A, backend)
    X = multiply(found["VH"] * inverse[..., None], found["U"], None, 1.0, 0.0, by, _ADJOINTS)
    return X, found["INFO"]


def least_squares(kind: Kind, A: Array, B: Array, rcond: float, backend: str | None) -> tuple[Array, Array, Array]:
    """Solutions of least norm, ranks and singular values; A and B have the same leading dimensions."""
    found, by = singular(kind, A, backend), sparing(kind, A, backend)
    W = found["W"]
    inverse, kept = cut(kind, W, rcond)
    right = multiply(found["U"], B, None, 1.0, 0.0, by, _LEFT_ADJOINT)
    X = multiply(found["VH"] * inverse[..., None], right, None, 1.0, 0.0, by, _LEFT_ADJOINT)
    ranks = zeros(kind, tuple(W.shape[:-1]), "int32", A)
    ranks[...] = kept.sum(-1)
    return X, ranks, W


def rank(kind: Kind, A: Array, tol: Array, rtol: Array, hermitian: bool, backend: str | None) -> Array:
    """Number of singular values above `tol`, or above `rtol` times the largest."""
    A = stacked(kind, A)
    W = values(kind, A, backend, hermitian)
    if tol is None:
        relative = precision(kind, A) if rtol is None else rtol
        above = _per_matrix(relative) * W[..., :1] < W
    else:
        above = _per_matrix(tol) < W
    return above.sum(-1)[...]  # of one matrix NumPy gives a number, which no other library would take for an array


def polar(kind: Kind, A: Array, side: str, backend: str | None) -> tuple[Array, Array, Array]:
    """The orthogonal factor, the Hermitian one, and `info`."""
    A = stacked(kind, A)
    found, by = singular(kind, A, backend), sparing(kind, A, backend)
    U, W, VH = found["U"], found["W"], found["VH"]
    unitary = multiply(U, VH, None, 1.0, 0.0, by)
    if side == "right":
        hermitian = multiply(VH, W[..., None] * VH, None, 1.0, 0.0, by, _LEFT_ADJOINT)
    else:
        hermitian = multiply(U * W[..., None, :], U, None, 1.0, 0.0, by, _RIGHT_ADJOINT)
    return unitary, hermitian, found["INFO"]


def procrustes(kind: Kind, A: Array, B: Array, backend: str | None) -> tuple[Array, Array, Array]:
    """The orthogonal R that brings A R nearest to B, the sum of the singular values of A^H B, and `info`."""
    A, B = stacked(kind, A), stacked(kind, B)
    by = sparing(kind, max(A, B, key=lambda one: one.ndim), backend)
    product = multiply(A, B, None, 1.0, 0.0, by, _LEFT_ADJOINT)
    found = singular(kind, product, backend)
    return multiply(found["U"], found["VH"], None, 1.0, 0.0, by), found["W"].sum(-1), found["INFO"]


# ---- norms ------------------------------------------------------------------------------------------------


def matrix_norm(kind: Kind, A: Array, order: Any, backend: str | None) -> Array:
    """The norm of every matrix of a stack (..., m, n), or of a list."""
    A = stacked(kind, A)
    if order in SPECTRAL:
        W = values(kind, A, backend)
        if order == "nuc":
            return W.sum(-1)
        if order == 2 and W.shape[-1] == 0:
            return zeros(kind, tuple(W.shape[:-1]), str(W.dtype).removeprefix("torch."), W)
        return kind.module.amax(W, -1) if order == 2 else kind.module.amin(W, -1)
    by: Any = kind.module.linalg
    if not kind.has_numpy_methods:
        return by.matrix_norm(A, "fro" if order in (None, "f") else order)
    return by.norm(A, order, axis=(-2, -1))


def vector_norm(kind: Kind, x: Array, order: Any, axis: int | None, keepdims: bool) -> Array:
    """The norm of vectors along an axis; None: of all entries as one vector."""
    by: Any = kind.module.linalg
    if not kind.has_numpy_methods:
        return by.vector_norm(x, 2 if order is None else order, axis, keepdims)
    return by.norm(x, order, axis, keepdims)


def condition(kind: Kind, A: Array, p: Any, backend: str | None) -> Array:
    """Condition numbers; infinite for singular matrices, NaN for those that have NaN among their entries."""
    A, module = stacked(kind, A), kind.module
    with np.errstate(all="ignore"):
        if p in (None, 2, -2):
            W = values(kind, A, backend)
            ratio = W[..., -1] / W[..., 0] if p == -2 else W[..., 0] / W[..., -1]
        else:
            found = factor(FactorTask("lu", "inverse"), kind, A, None, None, sparing(kind, A, backend))
            ratio = matrix_norm(kind, A, p, backend) * matrix_norm(kind, found["F"], p, backend)
            ratio = module.where(found["INFO"] != 0, module.full_like(ratio, np.nan), ratio)
        has_nan = module.isnan(A).any(-1).any(-1)
        infinite = module.isnan(ratio) & ~has_nan
        return module.where(has_nan, module.full_like(ratio, np.nan),
                            module.where(infinite, module.full_like(ratio, np.inf), ratio))  # fmt: skip
