"""Mansard: linear algebra for the shapes that vendor libraries neglect, at the speed the hardware allows."""

from . import blas, linalg, sparse
from .operations.batched.interleaved import Interleaved, deinterleave, interleave
from .operations.planning import plan, tune
from .operations.ragged import Ragged
from .operations.sparse.powers_call import matrix_powers
from .operations.tall_skinny.fused import matmul_gram, project
from .operations.tall_skinny.gram import gram
from .operations.tall_skinny.matmul import matmul
from .operations.tall_skinny.orthogonal import cholesky_qr, orthogonalize
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
