"""NumPy's and SciPy's names and conventions on matrices, stacks (..., rows, columns), lists and ragged batches.

Functions that can fail on a matrix (singular, indefinite, not finite) raise LinAlgError, which names the matrix. Each
has a variant with the suffix `_ex` that returns LAPACK's `info`, one number per matrix, instead of raising. On a GPU
the variant does not wait for the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..operations.lazy import exporting

if TYPE_CHECKING:
    from .eigen import EighResult, TridiagonalResult, eigh, eigh_ex, eigvalsh, eigvalsh_ex, tridiagonalize
    from .lu import SlogdetResult, det, lu_factor, lu_factor_ex, lu_solve, slogdet
    from .nearest import PolarResult, ProcrustesResult, polar, procrustes
    from .norms import cond, matrix_rank, norm
    from .orthogonal import LstsqResult, QRResult, lstsq, qr
    from .positive import cho_solve, cholesky, cholesky_ex
    from .reflectors import larfb, larft, laswp, ormqr
    from .singular import BidiagonalResult, SVDResult, bidiagonalize, pinv, svd, svd_ex, svdvals, svdvals_ex
    from .systems import inv, inv_ex, solve, solve_ex
    from .triangular import solve_triangular

__all__ = [
    "BidiagonalResult",
    "EighResult",
    "LstsqResult",
    "PolarResult",
    "ProcrustesResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "TridiagonalResult",
    "bidiagonalize",
    "cho_solve",
    "cholesky",
    "cholesky_ex",
    "cond",
    "det",
    "eigh",
    "eigh_ex",
    "eigvalsh",
    "eigvalsh_ex",
    "inv",
    "inv_ex",
    "larfb",
    "larft",
    "laswp",
    "lstsq",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matrix_rank",
    "norm",
    "ormqr",
    "pinv",
    "polar",
    "procrustes",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svd_ex",
    "svdvals",
    "svdvals_ex",
    "tridiagonalize",
]

# Modules are loaded with the first of their functions that is used.
_HOMES = {
    "eigen": ("EighResult", "TridiagonalResult", "eigh", "eigh_ex", "eigvalsh", "eigvalsh_ex", "tridiagonalize"),
    "lu": ("SlogdetResult", "det", "lu_factor", "lu_factor_ex", "lu_solve", "slogdet"),
    "nearest": ("PolarResult", "ProcrustesResult", "polar", "procrustes"),
    "norms": ("cond", "matrix_rank", "norm"),
    "orthogonal": ("LstsqResult", "QRResult", "lstsq", "qr"),
    "positive": ("cho_solve", "cholesky", "cholesky_ex"),
    "reflectors": ("larfb", "larft", "laswp", "ormqr"),
    "singular": ("BidiagonalResult", "SVDResult", "bidiagonalize", "pinv", "svd", "svd_ex", "svdvals", "svdvals_ex"),
    "systems": ("inv", "inv_ex", "solve", "solve_ex"),
    "triangular": ("solve_triangular",),
}

__getattr__ = exporting(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
