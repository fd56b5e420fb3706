"""Singular values: `svd`, `svdvals`, `bidiagonalize`, `pinv`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..arrays.types import Array, Matrices
from ..operations.factor.face import Part, check_matrices
from ..operations.factor.two_sided import derived
from ..operations.factor.two_sided.call import answer_parts, parts_of, refuse_unconverged
from ..operations.factor.two_sided.task import Task


class SVDResult(NamedTuple):
    """Left singular vectors in columns, singular values, descending, and right singular vectors in rows."""

    U: Matrices
    S: Matrices
    Vh: Matrices


class SVDExResult(NamedTuple):
    """The parts of a singular value decomposition, and `info` of every matrix."""

    U: Matrices
    S: Matrices
    Vh: Matrices
    info: Matrices


class SvdvalsExResult(NamedTuple):
    """Singular values, and `info` of every matrix."""

    S: Matrices
    info: Matrices


class BidiagonalResult(NamedTuple):
    """U, the diagonal d and the other diagonal e of B, and Vh, with a = U B Vh."""

    U: Matrices
    d: Matrices
    e: Matrices
    Vh: Matrices


def svd(
    a: Matrices, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False, *, driver: str = "auto",
    backend: str | None = None,
) -> Matrices:  # fmt: skip
    """Singular value decomposition a = U diag(s) Vh of every matrix of a batch, as `numpy.linalg.svd`.

    Parameters
    ----------
    a : array (..., m, n), list of matrices of one shape, Ragged or Interleaved. float32, float64, complex64 or
        complex128 of any strides; of NumPy arrays also integers
    full_matrices : U (..., m, m) and Vh (..., n, n); False: (..., m, k) and (..., k, n) with k = min(m, n)
    compute_uv : False: the singular values alone
    hermitian : a is Hermitian: from its eigenvalues, of which the lower triangle is read
    driver : `auto`, `jacobi` (small singular values of graded columns are accurate in all digits), or `qr`
        (bidiagonal form, then implicit QR)
    backend : as for `matmul`

    Returns
    -------
    SVDResult(U, S, Vh) with S (..., k) descending, or S, arrays of the same kind on the same device; of lists, lists.
    LinAlgError names the first matrix that has entries that are not finite, or did not converge; looking for it waits
    for a GPU. `svd_ex` does not.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> U, S, Vh = ms.linalg.svd(np.array([[[3.0, 0.0], [4.0, 5.0]], [[1.0, 0.0], [0.0, 2.0]]]))
    >>> np.round(S**2, 12)
    array([[45.,  5.],
           [ 4.,  1.]])
    """
    if not compute_uv:
        values, info = svdvals_ex(a, hermitian=hermitian, driver=driver, backend=backend)
        refuse_unconverged(info, "svd")
        return values
    *parts, info = svd_ex(a, full_matrices, hermitian=hermitian, driver=driver, backend=backend)
    refuse_unconverged(info, "svd")
    return SVDResult(*parts)


def svd_ex(
    a: Matrices,
    full_matrices: bool = True,
    *,
    hermitian: bool = False,
    driver: str = "auto",
    backend: str | None = None,
) -> SVDExResult:
    """Compute what `svd` does, and return `info` of every matrix, as `eigh_ex` does, instead of raising.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.svd_ex(np.array([[[2.0]], [[np.nan]]])).info
    array([0, 2], dtype=int32)
    """
    task = Task("svd", full=bool(full_matrices), driver=driver)
    return SVDExResult(*parts_of(task, a, backend, bool(hermitian)))


def svdvals(x: Matrices, /, *, driver: str = "auto", backend: str | None = None) -> Matrices:
    """Singular values, descending, of every matrix of a batch, as `numpy.linalg.svdvals`; arguments and exceptions as
    for `svd`.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> np.round(ms.linalg.svdvals(np.array([[3.0, 0.0], [4.0, 5.0]])) ** 2, 12)
    array([45.,  5.])
    """
    values, info = svdvals_ex(x, driver=driver, backend=backend)
    refuse_unconverged(info, "svdvals")
    return values


def svdvals_ex(
    x: Matrices, /, *, hermitian: bool = False, driver: str = "auto", backend: str | None = None
) -> SvdvalsExResult:  # fmt: skip
    """Compute what `svdvals` does, and return `info` of every matrix, as `eigh_ex` does, instead of raising.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.svdvals_ex(np.array([[[2.0]], [[np.inf]]])).info
    array([0, 2], dtype=int32)
    """
    return SvdvalsExResult(*parts_of(Task("svdvals", driver=driver), x, backend, bool(hermitian), "x"))


def bidiagonalize(a: Matrices, *, compute_uv: bool = True, backend: str | None = None) -> Matrices:
    """Reduce every matrix of a batch to a real bidiagonal B: a = U B Vh, by Householder reflections.

    Parameters
    ----------
    a, backend : as for `svd`
    compute_uv : False: B alone

    Returns
    -------
    BidiagonalResult(U, d, e, Vh) with k = min(m, n): (..., m, k), the diagonal d (..., k) and e
    (..., k - 1), both real, and (..., k, n); without U and Vh, (d, e). e is the superdiagonal, for m < n the
    subdiagonal, as in LAPACK's gebrd. Matrices with entries that are not finite give NaN.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.array([[3.0, 1.0], [4.0, 2.0]])
    >>> U, d, e, Vh = ms.linalg.bidiagonalize(a)
    >>> bool(np.allclose(U @ (np.diag(d) + np.diag(e, 1)) @ Vh, a))
    True
    """
    found = parts_of(Task("bidiagonalize" if compute_uv else "bidiagonal"), a, backend)
    return BidiagonalResult(*found) if compute_uv else found


def pinv(
    a: Matrices,
    rcond: float | Array | None = None,
    hermitian: bool = False,
    *,
    rtol: float | Array | None = None,
    backend: str | None = None,
) -> Matrices:
    """Moore-Penrose inverse of every matrix of a batch, as `numpy.linalg.pinv`; LinAlgError as for `svd`.

    Parameters
    ----------
    a : array (..., m, n), list of matrices of one shape, Ragged or Interleaved
    rcond, rtol : singular values up to this times the largest count as zero; one number, or one per matrix. None: the
        precision times max(m, n), where NumPy has 1e-15 for every dtype
    hermitian : a is Hermitian: from its eigenvalues
    backend : as for `matmul`

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> np.round(ms.linalg.pinv(np.array([[[2.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]]])), 12) + 0.0
    array([[[ 0.5,  0. ],
            [ 0. ,  0. ]],
    <BLANKLINE>
           [[ 1. , -1. ],
            [ 0. ,  1. ]]])
    """
    if rcond is not None and rtol is not None:
        raise ValueError("`rtol` and `rcond` can't be both set.")

    def run(kind: Any, A: Any) -> tuple[Any, Any]:
        check_matrices(A, "a", square=bool(hermitian))
        return derived.pseudo_inverse(kind, A, rtol if rcond is None else rcond, bool(hermitian), backend)

    found, info = answer_parts(run, (Part("matrix", lambda a: a[::-1]), Part("info")), a)
    refuse_unconverged(info, "pinv")
    return found
