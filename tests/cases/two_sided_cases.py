"""Matrices of all kinds for eigenvalues and singular values, and how far results are from what rounding explains.

Ratios are of spectral norms: residuals in units of n eps |A|, orthogonality in units of n eps, values in units of
eps |A|. Exact values are Jacobi's, in extended precision (exact_values.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from exact_values import exact_eigenvalues, exact_singular_values
from linalg_cases import WIDE, adjoint, normal

RESIDUAL, ORTHOGONALITY, VALUES = 3, 5, 16  # what results of kernels are allowed
LAPACK = 3.0  # times as much: its residuals reach 4 n eps (complex128, 4 x 5), its values 34 eps (clustered, 33 rows)
KINDS = (
    "random", "clustered", "graded", "deficient", "identity", "zero", "wilkinson", "ones", "huge", "tiny", "minus",
    "signs", "rotations",
)  # fmt: skip


def hermitian(rng: Any, kind: str, n: int, dtype: str) -> Any:
    """One Hermitian matrix of a kind."""
    fixed = rotations(n, True).astype(dtype) if kind == "rotations" else _fixed(kind, n, dtype)
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


def rotations(n: int, hermitian: bool = False) -> Any:
    """Plane rotations of pairs of coordinates by different angles, or reflections, which are symmetric."""
    A, sign = np.eye(n), -1 if hermitian else 1
    for i in range(0, n - 1, 2):
        cosine, sine = np.cos(1 + i), np.sin(1 + i)
        A[i : i + 2, i : i + 2] = [[cosine, -sign * sine], [sine, sign * cosine]]
    return A


def _fixed(kind: str, n: int, dtype: str) -> Any:
    if kind == "wilkinson":
        return (np.diag(np.abs(np.arange(n) - (n - 1) / 2)) + np.eye(n, k=1) + np.eye(n, k=-1)).astype(dtype)
    made = {
        "identity": np.eye(n), "minus": -np.eye(n), "zero": np.zeros((n, n)), "ones": np.ones((n, n)),
        "signs": np.diag(1.0 - 2 * (np.arange(n) % 2)), "rotations": rotations(n),
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


def spectral(error: Any) -> Any:
    """Spectral norm of every matrix of a stack, in double precision; infinite where an entry is not finite."""
    double = error.astype("complex128" if np.iscomplexobj(error) else "float64")
    finite = np.isfinite(double).all((-2, -1))
    norms = np.linalg.norm(np.where(finite[..., None, None], double, 0), 2, (-2, -1)) if double.size else finite * 0.0
    return np.where(finite, norms, np.inf)


def _size(A: Any) -> Any:
    """Largest entry of every matrix; 1 for zeros."""
    size = np.abs(A).max((-2, -1), initial=0)
    return np.where(size == 0, 1, size)


def check_orthonormal(Q: Any, what: object, slack: float = 1.0) -> None:
    """Columns are orthonormal: |Q^H Q - I| <= 5 n eps, with more `slack` where a library answers."""
    W = wide(Q)
    off = spectral(adjoint(W) @ W - np.eye(Q.shape[-1])) / (slack * ORTHOGONALITY * _unit(Q.dtype, Q.shape[-2]))
    assert (off <= 1).all(), (what, off.max())


def check_product(A: Any, product: Any, what: object, slack: float = 1.0) -> None:
    """The parts multiply to A: |A - product| <= 3 n eps |A|."""
    size = _size(wide(A))[..., None, None]
    norm = spectral(wide(A) / size)
    off = spectral((wide(A) - product) / size) / np.where(norm == 0, 1, norm)
    limit = slack * RESIDUAL * _unit(A.dtype, max(A.shape[-2:]))
    assert (off <= limit).all(), (what, (off / limit).max())


def check_eigh(A: Any, w: Any, z: Any, what: object, slack: float = 1.0) -> None:
    """Ascending eigenvalues, orthonormal vectors, a small residual, and the values of a wider precision."""
    assert w.shape == A.shape[:-1] and z.shape == A.shape and z.dtype == A.dtype, what
    check_eigenvalues(A, w, what, slack)
    check_orthonormal(z, what, slack)
    W = wide(z)
    check_product(A, (W * wide(w)[..., None, :]) @ adjoint(W), what, slack)


def check_eigenvalues(A: Any, w: Any, what: object, slack: float = 1.0) -> None:
    size = _size(wide(A))[..., None]
    check_values(w, exact_eigenvalues(wide(A) / size[..., None]), size, what, slack)


def check_singular_values(A: Any, s: Any, what: object, slack: float = 1.0) -> None:
    size = _size(wide(A))[..., None]
    assert (s >= 0).all() and (np.diff(s, axis=-1) <= 0).all(), what
    check_values(s, exact_singular_values(wide(A) / size[..., None]), size, what, slack)


def check_values(found: Any, exact: Any, size: Any, what: object, slack: float = 1.0) -> None:
    """Within 16 eps |A| of exact values, which are those of A / size."""
    norm = np.abs(exact).max(-1, initial=0)[..., None]
    error = np.abs(found / size - exact)
    limit = slack * VALUES * np.finfo(found.dtype).eps * np.where(norm == 0, 1, norm)
    assert found.dtype == np.finfo(found.dtype).dtype and (error <= limit).all(), (what, (error / limit).max())


def check_svd(A: Any, U: Any, s: Any, Vh: Any, what: object, slack: float = 1.0) -> None:
    """Descending values, orthonormal vectors on both sides, a small residual."""
    K = min(A.shape[-2:])
    check_singular_values(A, s, what, slack)
    check_orthonormal(U, what, slack)
    check_orthonormal(adjoint(Vh), what, slack)
    check_product(A, (wide(U[..., :K]) * wide(s)[..., None, :]) @ wide(Vh[..., :K, :]), what, slack)
