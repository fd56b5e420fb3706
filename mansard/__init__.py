"""Mansard: linear algebra for the shapes that vendor libraries neglect, at the speed the hardware allows."""

from . import blas, linalg, sparse
from .api.fused import matmul_gram, project
from .api.interleaved import Interleaved, deinterleave, interleave
from .api.matmul import matmul
from .api.orthogonal import cholesky_qr, orthogonalize
from .api.planning import plan, tune
from .api.powers_call import matrix_powers
from .api.ragged import Ragged
from .api.tall_skinny import gram
from .plan.pin import pin

__version__ = "0.1.0"
__all__ = [
    "Interleaved",
    "Ragged",
    "__version__",
    "blas",
    "cholesky_qr",
    "deinterleave",
    "gram",
    "interleave",
    "linalg",
    "matmul",
    "matmul_gram",
    "matrix_powers",
    "orthogonalize",
    "pin",
    "plan",
    "project",
    "sparse",
    "tune",
]
