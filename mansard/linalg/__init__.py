"""NumPy's and SciPy's names and conventions on matrices, stacks (..., rows, columns), lists and ragged batches.

Every function of which a matrix can be too bad has a twin in `_ex`, which returns LAPACK's `info` per matrix instead of
raising, and does not wait for a GPU.
"""

from .lu import det, lu_factor, lu_factor_ex, lu_solve, slogdet
from .orthogonal import lstsq, qr
from .positive import cho_solve, cholesky, cholesky_ex
from .systems import inv, inv_ex, solve, solve_ex
from .triangular import solve_triangular

__all__ = [
    "cho_solve",
    "cholesky",
    "cholesky_ex",
    "det",
    "inv",
    "inv_ex",
    "lstsq",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
]


def __dir__() -> list[str]:
    return __all__
