"""Eigenvalues and singular values in extended precision, by Jacobi's method: references that no LAPACK has a part in.

One-sided rotations make the columns of A V orthogonal, and their lengths are the singular values (Hestenes). LAPACK's
singular vectors are where V begins, after a step that makes them orthonormal in extended precision: any orthonormal V
would do, these need the fewest rotations. Eigenvalues of a Hermitian A are the singular values of A + c I less c, where
c bounds them.

LAPACK's own eigenvalues are off by up to 20 eps |A|, its singular values by 34 eps, and differ from machine to machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_MOST_SWEEPS = 12  # of cyclic rotations; three are enough from LAPACK's vectors
_SETTLED = 2.0**-60  # of the largest value: what rotations may still change in any


def exact_eigenvalues(A: Any) -> Any:
    """Ascending eigenvalues of a stack of Hermitian matrices, as long doubles."""
    A = _extended(A)
    bound = np.abs(A).sum(-1).max(-1, initial=0)[..., None]
    return (exact_singular_values(A + bound[..., None] * np.eye(A.shape[-1])) - bound)[..., ::-1]


def exact_singular_values(A: Any) -> Any:
    """Descending singular values of a stack of matrices, as long doubles."""
    A = _extended(A)
    tall = A if A.shape[-2] >= A.shape[-1] else A.swapaxes(-1, -2)
    if 0 in tall.shape:
        return np.zeros((*tall.shape[:-2], tall.shape[-1]), "longdouble")
    found = np.array([_lengths(one) for one in tall.reshape(-1, *tall.shape[-2:])])
    return -np.sort(-found, -1).reshape(*tall.shape[:-2], tall.shape[-1])


def _extended(A: Any) -> Any:
    return A.astype("clongdouble" if np.iscomplexobj(A) else "longdouble")


def _lengths(A: Any) -> Any:
    """Lengths of the columns of A V, when V has made them orthogonal. A has as many rows as columns, or more."""
    size, n = np.abs(A).max(), A.shape[-1]
    if size == 0:
        return np.zeros(n, "longdouble")
    A = A / size
    rough = A.astype("complex128" if np.iscomplexobj(A) else "float64")
    V = _extended(np.linalg.svd(rough, full_matrices=False)[2].conj().T)
    V = V @ (3 * np.eye(n) - V.conj().T @ V) / 2
    if not np.abs(V.conj().T @ V - np.eye(n)).max() <= 1e-17:  # LAPACK went wrong
        V = _extended(np.eye(n))
    columns = np.ascontiguousarray((A @ V).T)
    for _ in range(_MOST_SWEEPS):
        if _change(columns) <= _SETTLED:
            return np.sqrt((np.abs(columns) ** 2).sum(1)) * size
        _sweep(columns)
    raise AssertionError("Jacobi's method did not converge")


def _change(columns: Any) -> float:
    """How far any value may be from the length of its column, beside the largest of them."""
    beside = np.abs(columns.conj() @ columns.T)
    squares = np.diag(beside).copy()
    lengths = np.sqrt(np.maximum(squares, np.finfo("float64").tiny))
    np.fill_diagonal(beside, 0)
    apart = np.maximum(np.abs(squares[:, None] - squares), beside)
    turned = beside * np.where(apart > 0, beside / np.where(apart > 0, apart, 1), 0)
    return float((turned / np.minimum(lengths[:, None], lengths)).sum(1).max() / lengths.max())


def _sweep(columns: Any) -> None:
    """Rotate every pair of columns (rows of the array) once, in rounds of disjoint pairs."""
    n = len(columns)
    seats = np.arange(n + n % 2)
    for _ in range(len(seats) - 1):
        p, q = seats[: len(seats) // 2], seats[::-1][: len(seats) // 2]
        both = (p < n) & (q < n)
        _rotate(columns, p[both], q[both])
        seats = np.r_[seats[0], seats[-1], seats[1:-1]]


def _rotate(columns: Any, p: Any, q: Any) -> None:
    x, y = columns[p], columns[q]
    product = (x.conj() * y).sum(1)
    beside = np.abs(product)
    turns = beside > 0
    y = y * np.where(turns, product.conj() / np.where(turns, beside, 1), 1)[:, None]  # then x^H y is real
    apart = (np.abs(y) ** 2 - np.abs(x) ** 2).sum(1)
    ratio = apart / np.where(turns, 2 * beside, 1)
    tangent = np.where(ratio < 0, -1, 1) / (np.abs(ratio) + np.sqrt(1 + ratio * ratio))
    tangent = np.where(turns, tangent, 0)[:, None]
    cosine = 1 / np.sqrt(1 + tangent * tangent)
    columns[p] = cosine * (x - tangent * y)
    columns[q] = cosine * (tangent * x + y)
