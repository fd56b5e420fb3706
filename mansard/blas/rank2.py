"""Rank-2k updates: `syr2k`, `her2k`."""

from __future__ import annotations

from typing import Any

from ..arrays.types import Array, Matrices
from .products import is_real, update_triangle


def syr2k(
    a: Matrices,
    b: Matrices,
    *,
    alpha: complex | Array = 1.0,
    beta: complex | Array = 0.0,
    uplo: str = "L",
    trans: str = "N",
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """alpha (a b^T + b a^T) + beta out (`trans` = "T": alpha (a^T b + b^T a) + beta out), for every matrix of a batch.

    One triangle is computed.

    Parameters
    ----------
    a, b : arrays (..., n, k), lists of matrices, `Ragged` or `Interleaved` batches; with "T", (..., k, n)
    alpha, beta : factors, one number each or one per matrix, as for `gemm`; of a Ragged one number each
    uplo : the triangle of `out` that is written: "L" or "U"; the other one is neither read nor written
    out : array (..., n, n) or list. Without it the whole matrix is returned, exactly symmetric

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.blas.syr2k(np.array([[1.0], [2.0]]), np.array([[3.0], [1.0]]))
    array([[6., 7.],
           [7., 4.]])
    """
    return _rank_2k(a, b, (alpha, beta), (uplo, trans, "T"), out, backend)


def her2k(
    a: Matrices,
    b: Matrices,
    *,
    alpha: complex | Array = 1.0,
    beta: float | Array = 0.0,
    uplo: str = "L",
    trans: str = "N",
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """alpha a b^H + conj(alpha) b a^H + beta out (`trans` = "C": alpha a^H b + conj(alpha) b^H a + beta out), for every
    matrix of a batch.

    As `syr2k`; beta is real, and so is the diagonal of the result. Without `out` the result is exactly Hermitian.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.blas.her2k(np.array([[1.0j], [2.0]]), np.array([[1.0], [1.0j]]))
    array([[0.+0.j, 3.+0.j],
           [3.+0.j, 0.+0.j]])
    """
    if not is_real(beta):
        raise TypeError("beta must be real: the result would not be Hermitian")
    return _rank_2k(a, b, (alpha, beta), (uplo, trans, "C"), out, backend)


def _rank_2k(
    a: Any, b: Any, factors: tuple[Any, Any], options: tuple[str, str, str], out: Any, backend: str | None
) -> Any:
    if b is None:
        raise TypeError("b is a NoneType: an array or a list of arrays is needed")
    return update_triangle(a, b, factors, options, out, backend)
