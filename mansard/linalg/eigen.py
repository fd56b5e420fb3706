"""Eigenvalues of Hermitian matrices: `eigh`, `eigvalsh`, `tridiagonalize`."""

from __future__ import annotations

from typing import NamedTuple

from ..arrays.types import Matrices
from ..operations.factor.two_sided.call import parts_of, refuse_unconverged
from ..operations.factor.two_sided.task import Task

_UPLO = {"L": False, "U": True}


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors in columns."""

    eigenvalues: Matrices
    eigenvectors: Matrices


class EighExResult(NamedTuple):
    """Eigenvalues, eigenvectors, and `info` of every matrix."""

    eigenvalues: Matrices
    eigenvectors: Matrices
    info: Matrices


class EigvalshExResult(NamedTuple):
    """Eigenvalues, and `info` of every matrix."""

    eigenvalues: Matrices
    info: Matrices


class TridiagonalResult(NamedTuple):
    """Q, the diagonal d and the subdiagonal e of T, with a = Q T Q^H."""

    Q: Matrices
    d: Matrices
    e: Matrices


def eigh(a: Matrices, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> EighResult:
    """Eigenvalues and eigenvectors of every Hermitian matrix of a batch, as `numpy.linalg.eigh`.

    Parameters
    ----------
    a : array (..., n, n), list of matrices of one shape, Ragged or Interleaved. float32, float64, complex64 or
        complex128 of any strides; of NumPy arrays also integers
    UPLO : `L` or `U`: the triangle that is read; the other one may hold anything
    driver : `auto`, `jacobi` (on CPUs, to 128 rows, eigenvalues of definite matrices D A D have small relative errors
        whatever the diagonal D is, if A is well-conditioned; on GPUs errors are relative to the norm), or `qr`
        (tridiagonal form, then implicit QR)
    backend : as for `matmul`

    Returns
    -------
    EighResult(eigenvalues, eigenvectors): (..., n) ascending and real, and (..., n, n) with a z_i = w_i z_i for column
    z_i, arrays of the same kind on the same device; of lists, lists; of a Ragged, a sequence of arrays and a Ragged.
    LinAlgError names the first matrix that has entries that are not finite, or did not converge; looking for it waits
    for a GPU. `eigh_ex` does not.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> w, z = ms.linalg.eigh(np.array([[[2.0, 1.0], [1.0, 2.0]], [[4.0, 0.0], [0.0, 3.0]]]))
    >>> np.round(w, 12)
    array([[1., 3.],
           [3., 4.]])
    """
    w, z, info = eigh_ex(a, UPLO, driver=driver, backend=backend)
    refuse_unconverged(info, "eigh")
    return EighResult(w, z)


def eigh_ex(a: Matrices, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> EighExResult:
    """Compute what `eigh` does, and return LAPACK's `info` of every matrix instead of raising.

    `info` (int32, of the leading dimensions) is 0, the number of off-diagonal entries that did not converge, or n + 1
    if the matrix has entries that are not finite; results of such a matrix are NaN. The call does not wait for a GPU
    where Mansard's kernels answer.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.eigh_ex(np.array([[[2.0]], [[np.nan]]])).info
    array([0, 2], dtype=int32)
    """
    return EighExResult(*parts_of(Task("eigh", _upper(UPLO), driver=driver), a, backend))


def eigvalsh(a: Matrices, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> Matrices:
    """Eigenvalues, ascending, of every Hermitian matrix of a batch, as `numpy.linalg.eigvalsh`; arguments and
    exceptions as for `eigh`.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> np.round(ms.linalg.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]])), 12)
    array([1., 3.])
    """
    w, info = eigvalsh_ex(a, UPLO, driver=driver, backend=backend)
    refuse_unconverged(info, "eigvalsh")
    return w


def eigvalsh_ex(a: Matrices, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> EigvalshExResult:
    """Compute what `eigvalsh` does, and return `info` of every matrix, as `eigh_ex` does, instead of raising.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.linalg.eigvalsh_ex(np.array([[[2.0]], [[np.inf]]])).info
    array([0, 2], dtype=int32)
    """
    return EigvalshExResult(*parts_of(Task("eigvalsh", _upper(UPLO), driver=driver), a, backend))


def tridiagonalize(a: Matrices, UPLO: str = "L", *, compute_q: bool = True, backend: str | None = None) -> Matrices:
    """Reduce every Hermitian matrix of a batch to a real tridiagonal T: a = Q T Q^H, by Householder reflections.

    Parameters
    ----------
    a, UPLO, backend : as for `eigh`
    compute_q : False: T alone

    Returns
    -------
    TridiagonalResult(Q, d, e): (..., n, n), the diagonal (..., n) and the subdiagonal (..., n - 1), both real;
    without Q, (d, e). Matrices with entries that are not finite give NaN.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.array([[4.0, 3.0, 4.0], [3.0, 1.0, 0.0], [4.0, 0.0, 1.0]])
    >>> Q, d, e = ms.linalg.tridiagonalize(a)
    >>> np.round(np.abs(d), 12), np.round(np.abs(e), 12)
    (array([4., 1., 1.]), array([5., 0.]))
    >>> T = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    >>> bool(np.allclose(Q @ T @ Q.T, a))
    True
    """
    task = Task("tridiagonalize" if compute_q else "tridiagonal", _upper(UPLO))
    found = parts_of(task, a, backend)
    return TridiagonalResult(*found) if compute_q else found


def _upper(UPLO: str) -> bool:
    found = _UPLO.get(UPLO.upper() if isinstance(UPLO, str) else "")
    if found is None:
        raise ValueError(f"UPLO={UPLO!r} is not one of 'L' and 'U'")
    return found
