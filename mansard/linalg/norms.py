"""Numbers that measure matrices: `norm`, `cond`, `matrix_rank`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.types import Array, Matrices
from ..operations.factor.face import Part, check_matrices, scalar
from ..operations.factor.two_sided import derived
from ..operations.factor.two_sided.call import answer_parts
from ..operations.factor.two_sided.norm import is_batch, norm_of_array

_VALUE = (Part("value"),)


def norm(
    x: Matrices,
    ord: float | str | None = None,
    axis: int | tuple[int, int] | None = None,
    keepdims: bool = False,
    *,
    backend: str | None = None,
) -> Matrices:
    """Norms of vectors and matrices, as `numpy.linalg.norm`; NaN where entries are NaN.

    Sums of absolute values or squares read x once. `nuc`, 2 and -2 of matrices cost what `svdvals` costs.

    Parameters
    ----------
    x : array of any dimensions, of NumPy also of integers. Of a list, a Ragged or an Interleaved, every matrix has its
        norm
    ord : of vectors any number, inf and -inf; of matrices `fro`, `nuc`, 1, -1, 2, -2, inf, -inf. None: the square root
        of the sum of squares
    axis : the axis of the vectors, or the pair of axes of the matrices, (-2, -1) for a stack; None: x is one vector or
        one matrix
    keepdims : axes that were summed over stay, with size one
    backend : as for `matmul`; it matters for `nuc`, 2 and -2 of matrices, which are functions of singular values

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.norm(np.array([[[3.0, 0.0], [0.0, 4.0]], [[0.0, 1.0], [2.0, 0.0]]]), "nuc", (-2, -1))
    array([7., 3.])
    """
    if not is_batch(x):
        return norm_of_array(x, ord, axis, bool(keepdims), backend)
    if axis is not None or keepdims:
        raise ValueError("axis and keepdims belong to arrays: leave them out for a batch of matrices")

    def run(kind: Any, A: Any) -> tuple[Any]:
        check_matrices(A, "x")
        return (derived.matrix_norm(kind, A, ord, backend),)

    return answer_parts(run, _VALUE, x, "x")[0]


def cond(x: Matrices, p: float | str | None = None, *, backend: str | None = None) -> Matrices:
    """Condition numbers of the matrices of a batch, as `numpy.linalg.cond`.

    Parameters
    ----------
    x : array (..., m, n), list of matrices of one shape, Ragged or Interleaved; square unless p is None, 2 or -2
    p : None or 2: largest over smallest singular value, -2: its reciprocal; otherwise |x| |x^-1| in the norm p
    backend : as for `matmul`

    Returns
    -------
    Real numbers of the leading dimensions: infinite for singular matrices, NaN where entries are NaN.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.cond(np.array([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]), 1)
    array([ 2., inf])
    """

    def run(kind: Any, A: Any) -> tuple[Any]:
        if 0 in check_matrices(A, "x", square=p not in (None, 2, -2)):
            raise np.linalg.LinAlgError("x has matrices without entries: they have no condition number")
        return (derived.condition(kind, A, p, backend),)

    return scalar(answer_parts(run, _VALUE, x, "x")[0])


def matrix_rank(
    A: Matrices,
    tol: float | Array | None = None,
    hermitian: bool = False,
    *,
    rtol: float | Array | None = None,
    backend: str | None = None,
) -> Matrices:
    """Rank of every matrix of a batch, as `numpy.linalg.matrix_rank`: singular values above a threshold are counted.

    Parameters
    ----------
    A : array (..., m, n), list of matrices of one shape, Ragged or Interleaved; a vector has rank 1 unless it is zero
    tol : singular values up to this count as zero; one number, or one per matrix
    hermitian : A is Hermitian: from its eigenvalues
    rtol : the same relative to the largest; None: the precision times max(m, n)
    backend : as for `matmul`

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.matrix_rank(np.array([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]))
    array([2, 1])
    """
    if tol is not None and rtol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    if not is_batch(A) and len(getattr(A, "shape", (0, 0))) < 2:
        return int(not bool((A == 0).all()))

    def run(kind: Any, given: Any) -> tuple[Any]:
        check_matrices(given, "A", square=bool(hermitian))
        return (derived.rank(kind, given, tol, rtol, bool(hermitian), backend),)

    return scalar(answer_parts(run, _VALUE, A, "A")[0])
