"""Vectors with vectors, for every vector of a batch: `dot`, `ger` by our products, the others by the array library."""

from __future__ import annotations

from typing import Any

from ..arrays.types import Array, Matrices
from ..operations import stacks
from ..operations.batched.gemv_call import apply, form_of
from ..operations.batched.vectors import iamax_of, scaled_sum, swap_contents
from .products import gemm


def dot(x: Matrices, y: Matrices, *, conj: bool = False, backend: str | None = None) -> Matrices:
    """Inner products x^T y, with `conj` x^H y, of every pair of vectors of a batch.

    Parameters
    ----------
    x, y : arrays (..., n) whose leading dimensions broadcast, or lists of vectors of one length; float32, float64,
        complex64 or complex128, any strides
    backend : as for `matmul`

    Returns
    -------
    An array of the leading dimensions, of the same kind, on the same device.

    Cost: 2 n flops per pair; x and y are read once.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.blas.dot(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
    array([3., 7.])
    """
    if not stacks.is_list(x) and not stacks.is_list(y):
        lengths = [_described(one, name).shape[-1:] for one, name in ((x, "x"), (y, "y"))]
        if lengths[0] != lengths[1]:
            (of_x,), (of_y,) = lengths
            raise ValueError(f"x has vectors of {of_x} entries and y of {of_y}: both need the same number")
    columns = [one[:, None] for one in x] if stacks.is_list(x) else _described(x, "x")[..., None]
    found = apply(columns, y, None, 1.0, 0.0, backend, form_of("C" if conj else "T"))
    if not stacks.is_list(found):
        return found[..., 0]
    kind = stacks.kind_of(found, "x")
    return kind.module.stack([one[0] for one in found]) if found else found


def ger(
    x: Matrices,
    y: Matrices,
    *,
    alpha: complex | Array = 1.0,
    beta: complex | Array = 0.0,
    conj: bool = False,
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """Outer products alpha x y^T + beta out, with `conj` alpha x y^H + beta out, of every pair of vectors of a batch.

    Parameters
    ----------
    x, y : arrays (..., m) and (..., n) whose leading dimensions broadcast, or lists of vectors
    out : array (..., m, n) or list that receives the result; BLAS's update of a matrix is beta = 1
    alpha, beta, backend : as for `gemm`

    Cost: 2 m n flops per pair; m n entries are written, and read first if beta is not zero.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.blas.ger(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    array([[3., 4.],
           [6., 8.]])
    """
    columns = [
        [v[:, None] for v in one] if stacks.is_list(one) else _described(one, name)[..., None]
        for name, one in (("x", x), ("y", y))
    ]
    options = {"alpha": alpha, "beta": beta, "trans_b": "C" if conj else "T", "out": out, "backend": backend}
    return gemm(*columns, **options)


def axpy(x: Matrices, y: Matrices, *, alpha: complex | Array = 1.0, out: Matrices = None) -> Matrices:
    """alpha x + y, for every vector of a batch.

    Parameters
    ----------
    x, y : arrays (..., n) whose leading dimensions broadcast, or lists of vectors
    alpha : a number, or an array of one number per vector, whose shape broadcasts with the leading dimensions
    out : receives the result; BLAS's update in place is `out=y`

    Cost: 2 n flops per vector. The array library multiplies, then adds: 5 n entries are moved, with `out` 7 n.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.blas.axpy(np.ones((2, 3)), np.zeros((2, 3)), alpha=np.array([1.0, 2.0]))
    array([[1., 1., 1.],
           [2., 2., 2.]])
    """
    return scaled_sum(alpha, x, y, out)


def scal(x: Matrices, *, alpha: complex | Array, out: Matrices = None) -> Matrices:
    """alpha x, for every vector of a batch; `out=x` scales in place.

    alpha is a number, or an array of one number per vector, as for `axpy`.

    Cost: n flops per vector; 2 n entries are moved, with `out` 4 n.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.blas.scal(np.ones((2, 2)), alpha=np.array([2.0, 3.0]))
    array([[2., 2.],
           [3., 3.]])
    """
    return scaled_sum(alpha, x, None, out)


def swap(x: Matrices, y: Matrices) -> None:
    """Exchange the contents of two batches of vectors, or of matrices, of one shape.

    Cost: 6 n entries are moved, by way of a copy of x; no flops.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> x, y = np.zeros(2), np.ones(2)
    >>> ms.blas.swap(x, y)
    >>> x, y
    (array([1., 1.]), array([0., 0.]))
    """
    swap_contents(x, y)


def iamax(x: Matrices) -> Matrices:
    """Index, from zero, of the first entry of largest magnitude, for every vector of a batch.

    As in BLAS, the magnitude of a complex number is |real| + |imaginary|. NaN counts as the largest.

    Cost: n comparisons per vector. Magnitudes are formed first, so that 3 n real numbers are moved, 8 n for complex
    vectors.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.blas.iamax(np.array([[1.0, -3.0, 2.0], [0.0, 0.0, 0.0]]))
    array([1, 0])
    """
    return iamax_of(x)


def _described(array: Any, name: str) -> Any:
    """An array of at least one dimension, of a library that is known."""
    stacks.kind_of(array, name)
    if array.ndim < 1:
        raise ValueError(f"{name} is a single number: a vector or a stack of vectors is needed")
    return array
