"""Rank-2k updates: `syr2k`, `her2k`."""

from __future__ import annotations

from typing import Any

from ..operations import stacks
from ..operations.ragged import Ragged
from .places import check_options, check_places, each, kind_of, make_diagonal_real
from .products import gemm


def syr2k(
    a: Any,
    b: Any,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    uplo: str = "L",
    trans: str = "N",
    out: Any = None,
    backend: str | None = None,
) -> Any:
    """alpha (a b^T + b a^T) + beta out (`trans` = "T": alpha (a^T b + b^T a) + beta out), for every matrix of a batch.

    One product is formed; its transpose is the other half.

    Parameters
    ----------
    a, b : arrays (..., n, k) or lists of matrices of one shape; with "T", (..., k, n)
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
    a: Any,
    b: Any,
    *,
    alpha: complex = 1.0,
    beta: float = 0.0,
    uplo: str = "L",
    trans: str = "N",
    out: Any = None,
    backend: str | None = None,
) -> Any:
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
    if complex(beta).imag:
        raise TypeError("beta must be real: the result would not be Hermitian")
    return _rank_2k(a, b, (alpha, beta), (uplo, trans, "C"), out, backend)


def _rank_2k(
    a: Any, b: Any, factors: tuple[complex, complex], options: tuple[str, str, str], out: Any, backend: str | None
) -> Any:
    """P = alpha a b^T; the sum of P and its transpose (adjoint) is the update."""
    (alpha, beta), (uplo, trans, other) = factors, options
    hermitian = other == "C"
    _check(a, b, beta, options, out)
    kind = stacks.common_kind((("a", a), ("b", b), ("out", out)))
    if kind is not None and kind.immutable:
        raise TypeError("a is a JAX array, of which no triangle can be written: use ms.blas.gemm")
    if out is not None:
        check_places(kind, a, trans, out)
    trans_a, trans_b = ("N", other) if trans == "N" else (other, "N")
    product = gemm(a, b, alpha=alpha, trans_a=trans_a, trans_b=trans_b, backend=backend)
    for i, half in enumerate(each(product)):
        turned = half.swapaxes(-1, -2)
        update = half + (kind.conj(turned) if hermitian else turned)
        if out is None:
            half[...] = update
            continue
        place = each(out)[i]
        kind.put_triangle(place, update if beta == 0.0 else update + place * beta, uplo == "L")
        if hermitian:
            make_diagonal_real(kind, place)
    if out is not None and kind is not None and kind.written is not None:
        kind.written(each(out))
    return product if out is None else out


def _check(a: Any, b: Any, beta: complex, options: tuple[str, str, str], out: Any) -> None:
    """Options, and operands of one form and shape."""
    uplo, trans, other = options
    check_options(uplo, trans, other, beta, out)
    if any(isinstance(one, Ragged) for one in (a, b, out)):
        raise TypeError("a, b and out are not taken as Ragged: use ms.blas.gemm, which gives a b^T")
    kind_of(a, "a"), kind_of(b, "b")
    if stacks.is_list(a) != stacks.is_list(b) or len(each(a)) != len(each(b)):
        raise ValueError("a and b are not both arrays, or lists of one length: one for each is needed")
    for one, two in zip(each(a), each(b), strict=True):
        if tuple(one.shape[-2:]) != tuple(two.shape[-2:]):
            raise ValueError(f"a has shape {tuple(one.shape)} and b {tuple(two.shape)}: both need the same matrices")
