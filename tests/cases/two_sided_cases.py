"""Matrices of all kinds for eigenvalues and singular values, and how far results are from what rounding explains.

Ratios are entry by entry: residuals in units of n eps |A|_max (a matrix's own), orthogonality in units of n eps, values
in units of eps |A|_2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from linalg_cases import WIDE, adjoint, normal

RESIDUAL, ORTHOGONALITY, VALUES = 3, 5, 16  # what results are allowed
KINDS = (
    "random", "clustered", "graded", "deficient", "identity", "zero", "wilkinson", "ones", "huge", "tiny", "minus",
    "signs",
)  # fmt: skip


def hermitian(rng: Any, kind: str, n: int, dtype: str) -> Any:
    """One Hermitian matrix of a kind."""
    fixed = _fixed(kind, n, dtype)
    if fixed is not None:
        return fixed
    A = normal(rng, (n, n), dtype)
    values = _values(kind, n, dtype)
    if values is not None:
        Q = np.linalg.qr(A)[0]
        A = (Q * values) @ adjoint(Q)
    A = (A + adjoint(A)) / 2
    if kind == "graded":
        scale = np.logspace(0, np.log10(np.finfo(dtype).eps) / 2, n)
        A = A * scale * scale[:, None]
    return (A * _scale(kind, dtype)).astype(dtype)


def general(rng: Any, kind: str, rows: int, columns: int, dtype: str) -> Any:
    """One matrix of a kind, of any shape."""
    n = min(rows, columns)
    fixed = _fixed(kind, max(rows, columns), dtype)
    if fixed is not None:
        return fixed[:rows, :columns].copy()
    A = normal(rng, (rows, columns), dtype)
    values = _values(kind, n, dtype)
    if values is not None:
        U, _, V = np.linalg.svd(A, full_matrices=False)
        A = (U * np.abs(values)) @ V
    if kind == "graded":
        A = A * np.logspace(0, np.log10(np.finfo(dtype).eps), columns)
    return (A * _scale(kind, dtype)).astype(dtype)


def _fixed(kind: str, n: int, dtype: str) -> Any:
    if kind == "wilkinson":
        return (np.diag(np.abs(np.arange(n) - (n - 1) / 2)) + np.eye(n, k=1) + np.eye(n, k=-1)).astype(dtype)
    made = {
        "identity": np.eye(n), "minus": -np.eye(n), "zero": np.zeros((n, n)), "ones": np.ones((n, n)),
        "signs": np.diag(1.0 - 2 * (np.arange(n) % 2)),
    }  # fmt: skip
    return made[kind].astype(dtype) if kind in made else None


def _values(kind: str, n: int, dtype: str) -> Any:
    if kind == "clustered":
        return 1 + np.arange(n) // 3 * 1.0 + np.arange(n) * np.finfo(dtype).eps
    return np.r_[np.linspace(1, 2, n - n // 2), np.zeros(n // 2)] if kind == "deficient" else None


def _scale(kind: str, dtype: str) -> float:
    exponent = 150 if np.finfo(dtype).dtype == np.float64 else 18
    return float(10.0 ** {"huge": exponent, "tiny": -exponent}.get(kind, 0))


def wide(array: Any) -> Any:
    """In more digits, without loss."""
    return np.asarray(array).astype(WIDE.get(str(array.dtype), array.dtype))


def _unit(dtype: Any, n: int) -> float:
    return float(np.finfo(dtype).eps) * max(1, n)


def _largest(A: Any) -> Any:
    """Largest entry times the square root of the size: never more than twice the norm of what it measures here."""
    size = np.abs(A).max((-2, -1), initial=0)
    return np.where(size == 0, 1, size)[..., None, None] * max(A.shape[-2:]) ** 0.5


def check_orthonormal(Q: Any, what: object) -> None:
    """Columns are orthonormal, entry by entry."""
    W = wide(Q)
    error = np.abs(adjoint(W) @ W - np.eye(Q.shape[-1]))
    assert float(error.max(initial=0)) <= ORTHOGONALITY * _unit(Q.dtype, Q.shape[-2]), what


def check_product(A: Any, product: Any, what: object) -> None:
    """The parts multiply to A, entry by entry."""
    error = np.abs(wide(A) - product) / _largest(wide(A))
    limit = RESIDUAL * _unit(A.dtype, max(A.shape[-2:]))
    assert np.isfinite(error).all() and float(error.max(initial=0)) <= limit, (what, float(error.max()) / limit)


def check_eigh(A: Any, w: Any, z: Any, what: object) -> None:
    """Ascending eigenvalues, orthonormal vectors, a small residual, and the values of a wider precision."""
    assert w.shape == A.shape[:-1] and z.shape == A.shape and z.dtype == A.dtype, what
    check_eigenvalues(A, w, what)
    check_orthonormal(z, what)
    W = wide(z)
    check_product(A, (W * wide(w)[..., None, :]) @ adjoint(W), what)


def _quotients(left: Any, A: Any, right: Any) -> Any:
    """u^H A v of vectors that are orthonormal but for rounding, in more digits: errors of vectors enter squared.
    LAPACK's own values are off by 25 eps |A| at 128 rows."""
    size = np.sqrt((np.abs(left) ** 2).sum(-2) * (np.abs(right) ** 2).sum(-2))
    return (left.conj() * (A @ right)).sum(-2) / size


def check_eigenvalues(A: Any, w: Any, what: object) -> None:
    double = A.astype("complex128" if np.iscomplexobj(A) else "float64")
    size = np.abs(double).max((-2, -1), initial=0)
    size = np.where(size == 0, 1.0, size)[..., None]
    scaled = double / size[..., None]
    vectors = wide(np.linalg.eigh(scaled)[1])
    check_values(w, np.sort(_quotients(vectors, wide(scaled), vectors).real, -1), size, what)


def check_singular_values(A: Any, s: Any, what: object) -> None:
    double = A.astype("complex128" if np.iscomplexobj(A) else "float64")
    size = np.abs(double).max((-2, -1), initial=0)
    size = np.where(size == 0, 1.0, size)[..., None]
    scaled = double / size[..., None]
    U, _, Vh = np.linalg.svd(scaled, full_matrices=False)
    exact = np.abs(_quotients(wide(U), wide(scaled), adjoint(wide(Vh))))
    exact = -np.sort(-exact, -1)
    assert (s >= 0).all() and (np.diff(s, axis=-1) <= 0).all(), what
    check_values(s, exact, size, what)


def check_values(found: Any, exact: Any, size: Any, what: object) -> None:
    """Within 16 eps |A|_2 of exact values, which are those of A / size; beyond 64 of them errors grow with their number
    (20 at 128 rows, where LAPACK has 25)."""
    norm = np.abs(exact).max(-1, initial=0)[..., None]
    error = np.abs(found / size - exact)
    limit = VALUES * max(1, found.shape[-1] / 64) * np.finfo(found.dtype).eps * np.where(norm == 0, 1, norm)
    assert found.dtype == np.finfo(found.dtype).dtype and (error <= limit).all(), (what, (error / limit).max())


def check_svd(A: Any, U: Any, s: Any, Vh: Any, what: object) -> None:
    """Descending values, orthonormal vectors on both sides, a small residual."""
    K = min(A.shape[-2:])
    check_singular_values(A, s, what)
    check_orthonormal(U, what)
    check_orthonormal(adjoint(Vh), what)
    check_product(A, (wide(U[..., :K]) * wide(s)[..., None, :]) @ wide(Vh[..., :K, :]), what)
