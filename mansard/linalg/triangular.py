"""Triangular systems: `solve_triangular`."""

from __future__ import annotations

from ..arrays.types import Matrices
from ..blas.triangular import as_columns, as_vectors
from ..operations.batched.triangular_call import Triangle, solve

_TRANS = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


def solve_triangular(
    a: Matrices,
    b: Matrices,
    *,
    lower: bool = False,
    trans: int | str = 0,
    unit_diagonal: bool = False,
    check: bool = False,
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """Solve a x = b for triangular a, as `scipy.linalg.solve_triangular`, for every matrix of a batch.

    Parameters
    ----------
    a : array (..., n, n), list of matrices, or Ragged; float32, float64, complex64 or complex128, any strides
    b : array (..., n, k) whose leading dimensions broadcast with those of a, one vector (n,), list of (n, k) arrays, or
        Ragged
    lower : whether the lower triangle is used; the other one is never read
    trans : 0 or "N": a x = b, 1 or "T": a^T x = b, 2 or "C": a^H x = b
    unit_diagonal : the diagonal counts as ones, and is not read either
    check : raise numpy.linalg.LinAlgError, before anything is written, for the first singular matrix; waits for a GPU.
        Without it the solution of a singular system is inf or nan, and that of the others what it should be
    out : array or list that receives the result; it may be b itself
    backend : as for `matmul`

    Returns
    -------
    An array of the same kind, on the same device; `out` if it was given; of lists, a list. A vector b gives (..., n).

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.array([[[2.0, 1.0], [0.0, 4.0]], [[1.0, 1.0], [0.0, 2.0]]])
    >>> ms.linalg.solve_triangular(a, np.array([4.0, 8.0]))
    array([[1., 2.],
           [0., 4.]])
    """
    if type(trans) not in (int, str) or trans not in _TRANS:
        raise ValueError(f"trans={trans!r} is not one of 0, 1, 2, 'N', 'T' and 'C'")
    form = Triangle("left", "lower" if lower else "upper", _TRANS[trans], bool(unit_diagonal))
    if getattr(b, "ndim", 0) != 1:
        return solve(a, b, out, 1.0, backend, form, check)
    result = solve(a, as_columns(b, "b"), None if out is None else as_columns(out, "out"), 1.0, backend, form, check)
    return as_vectors(result) if out is None else out
