"""Matrices times vectors: `gemv`."""

from __future__ import annotations

from ..arrays.types import Array, Matrices
from ..operations import operation
from ..operations.batched.factors import are_numbers, scaled_each
from ..operations.batched.gemv_call import GEMV, apply, form_of


def gemv(
    a: Matrices,
    x: Matrices,
    *,
    alpha: complex | Array = 1.0,
    beta: complex | Array = 0.0,
    trans: str = "N",
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """alpha op(a) x + beta out, for every matrix of a batch.

    Parameters
    ----------
    a : array (..., m, n), or list of matrices; float32, float64, complex64 or complex128, any strides
    x : array (..., n), with "T" and "C" (..., m), whose leading dimensions broadcast with those of a, or list of
        vectors; a single matrix, or vector, serves all
    alpha, beta : factors, one number each or one per matrix, as for `gemm`; with beta = 0 the content of `out` is not
        read
    trans : "N": the matrices as they are, "T": transposed, "C": transposed and conjugated; none of them copies anything
    out : array (..., m), with "T" and "C" (..., n), or list, that receives the result; it shares no memory with a or x
    a, x, out : of matrices that differ in size each is a `Ragged`, whose vectors are matrices of one column, or a list.
        Beside a Ragged a, x is a Ragged, a list of vectors, or one vector for all; the result is a Ragged
    backend : as for `matmul`

    Returns
    -------
    An array of the same kind, on the same device; `out` if it was given; of lists, a list.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.arange(8.0).reshape(2, 2, 2)
    >>> ms.blas.gemv(a, np.array([1.0, -1.0]))
    array([[-1., -1.],
           [-1., -1.]])
    >>> ms.blas.gemv(a, np.ones((2, 2)), trans="T", alpha=0.5)
    array([[1., 2.],
           [5., 6.]])
    """
    if not (type(alpha) is float and type(beta) is float) and not are_numbers(alpha, beta):
        product = gemv(a, x, trans=trans, backend=backend)
        return scaled_each(product, alpha, beta, out, 1)
    return apply(a, x, out, alpha, beta, backend, form_of(trans))


operation.enters(gemv, GEMV, form_of("N"), options={"trans": ("N", "T", "C")}, form_of=form_of)
