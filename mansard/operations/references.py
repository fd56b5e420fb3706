"""The answer of every operation in one to three lines of NumPy: what tests compare plans and calls with.

Operands and options are those of `ms.plan`. Where an operation gives several arrays, so does its reference, in the same
order; `info` is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays.types import Array, SparseMatrix


def gram(A: Array, B: Array = None, *, conj: bool = True) -> Array:
    return _op(A, "C" if conj else "T") @ (A if B is None else B)


def matmul(A: Array, B: Array) -> Array:
    return np.matmul(np.asarray(A), np.asarray(B))


def matmul_gram(V: Array, S: Array) -> Array:
    return V @ S, gram(V @ S)


def project(V: Array, W: Array) -> Array:
    rest = W - V @ gram(V, W)
    return rest, gram(rest)


def cholesky_qr(V: Array) -> Array:
    R = _op(np.linalg.cholesky(gram(V)), "C")
    return V @ np.linalg.inv(R), R


def orthogonalize(V: Array, against: Array) -> Array:
    H = gram(against, V)
    return *cholesky_qr(V - against @ H), H


def gemm(a: Array, b: Array, *, trans_a: str = "N", trans_b: str = "N") -> Array:
    return _op(np.asarray(a), trans_a) @ _op(np.asarray(b), trans_b)


def gemv(a: Array, x: Array, *, trans: str = "N") -> Array:
    return (_op(a, trans) @ x[..., None])[..., 0]


def rank_k(other: str, a: Array, trans: str = "N") -> Array:
    """a a^T or a a^H as `other` says; with `trans`, the transposed factor first."""
    return a @ _op(a, other) if trans == "N" else _op(a, other) @ a


def rank_2k(other: str, a: Array, b: Array, trans: str = "N") -> Array:
    """a b^T + b a^T, or a b^H + b a^H, as `other` says; with `trans`, the transposed factors first."""
    product = a @ _op(b, other) if trans == "N" else _op(a, other) @ b
    return product + _op(product, other)


def trsm(a: Array, b: Array, *, side: str = "L", uplo: str = "L", trans: str = "N", diag: str = "N") -> Array:
    triangle = _op(_triangle(a, uplo, diag), trans)
    return np.linalg.solve(triangle, b) if side == "L" else _op(np.linalg.solve(_op(triangle, "T"), _op(b, "T")), "T")


def trsv(a: Array, x: Array, **options: str) -> Array:
    return trsm(a, x[..., None], **options)[..., 0]


def trmm(a: Array, b: Array, *, side: str = "L", uplo: str = "L", trans: str = "N", diag: str = "N") -> Array:
    triangle = _op(_triangle(a, uplo, diag), trans)
    return triangle @ b if side == "L" else b @ triangle


def solve_triangular(
    a: Array, b: Array, *, lower: bool = False, trans: int | str = 0, unit_diagonal: bool = False
) -> Array:
    triangle = _triangle(a, "L" if lower else "U", "U" if unit_diagonal else "N")
    return solve(_op(triangle, str(trans).translate(str.maketrans("012", "NTC"))), b)


def cholesky(a: Array, *, upper: bool = False) -> Array:
    return _op(np.linalg.cholesky(_op(a, "C")), "C") if upper else np.linalg.cholesky(a)


def cho_solve(c_and_lower: tuple[Array, bool], b: Array) -> Array:
    c, lower = c_and_lower
    return solve(c @ _op(c, "C") if lower else _op(c, "C") @ c, b)


def lu_factor(a: Array) -> Array:
    from scipy.linalg import lu_factor

    found = [lu_factor(one) for one in a]
    return np.stack([lu for lu, _ in found]), np.stack([piv for _, piv in found])


def lu_solve(lu_and_piv: tuple[Array, Array], b: Array) -> Array:
    from scipy.linalg import lu_solve

    return np.stack([lu_solve(one, right) for *one, right in zip(*lu_and_piv, b, strict=True)])


def qr(a: Array, *, mode: str = "reduced") -> Array:
    return np.linalg.qr(a, mode)  # type: ignore[call-overload]


def lstsq(a: Array, b: Array) -> Array:
    return np.stack([np.linalg.lstsq(one, right, rcond=None)[0] for one, right in zip(a, b, strict=True)])


def solve(a: Array, b: Array) -> Array:
    return np.linalg.solve(a, b) if np.ndim(b) > 1 else np.linalg.solve(a, b[:, None])[..., 0]


def inv(a: Array) -> Array:
    return np.linalg.inv(a)


def det(a: Array) -> Array:
    return np.linalg.det(a)


def slogdet(a: Array) -> Array:
    return tuple(np.linalg.slogdet(a))


def eigh(a: Array, *, UPLO: str = "L") -> Array:
    return tuple(np.linalg.eigh(a, UPLO))  # type: ignore[call-overload]


def eigvalsh(a: Array, *, UPLO: str = "L") -> Array:
    return np.linalg.eigvalsh(a, UPLO)  # type: ignore[call-overload]


def svd(a: Array, **options: bool) -> Array:
    found = np.linalg.svd(a, **options)  # type: ignore[call-overload]
    return tuple(found) if isinstance(found, tuple) else found


def svdvals(a: Array) -> Array:
    return np.linalg.svd(a, compute_uv=False)


def tridiagonalize(a: Array, *, UPLO: str = "L") -> Array:
    """The product Q T Q^H, which the parts must give: reflections have no preferred signs."""
    half = np.tril(a, -1) if UPLO == "L" else np.triu(a, 1)
    return half + _op(half, "C") + np.real(a) * np.eye(a.shape[-1])


def bidiagonalize(a: Array) -> Array:
    """The product U B V^H, which the parts must give: reflections have no preferred signs."""
    return a


def pinv(a: Array, **options: bool) -> Array:
    return np.linalg.pinv(a, **options)


def matrix_rank(A: Array, **options: bool) -> Array:
    return np.linalg.matrix_rank(A, **options)


def cond(x: Array, p: float | None = None) -> Array:
    return np.linalg.cond(x, p)


def norm(x: Array, *options: Array, **more: Array) -> Array:
    return np.linalg.norm(x, *options, **more)


def polar(a: Array, *, side: str = "right") -> Array:
    from scipy.linalg import polar

    return tuple(np.stack(part) for part in zip(*(polar(one, side) for one in a), strict=True))


def procrustes(a: Array, b: Array) -> Array:
    from scipy.linalg import orthogonal_procrustes

    return tuple(np.stack(part) for part in zip(*map(orthogonal_procrustes, a, b), strict=True))


def matvec(A: SparseMatrix, x: Array) -> Array:
    return A.to_scipy() @ x


def matrix_powers(A: SparseMatrix, p: int, x: Array) -> Sequence[Array]:
    """x, A x, ..., A^p x: of a plan called with x."""
    return [x] if p == 0 else [x, *matrix_powers(A, p - 1, A @ x)]


def _op(matrix: Array, trans: str) -> Array:
    """The matrices as BLAS's option has them: as they are (N), transposed (T), or conjugated as well (C)."""
    turned = matrix if trans == "N" else np.swapaxes(matrix, -1, -2)
    return np.conj(turned) if trans == "C" else turned


def _triangle(matrix: Array, uplo: str, diag: str) -> Array:
    half = np.tril(matrix) if uplo == "L" else np.triu(matrix)
    return half + (np.eye(half.shape[-1]) * (1 - half) if diag == "U" else 0)
