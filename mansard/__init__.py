"""Mansard: linear algebra for the shapes that vendor libraries neglect, at the speed the hardware allows."""

from . import blas
from .api.fused import matmul_gram, project
from .api.matmul import matmul
from .api.orthogonal import cholesky_qr, orthogonalize
from .api.planning import plan, tune
from .api.tall_skinny import gram
from .plan.pin import pin

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "blas",
    "cholesky_qr",
    "gram",
    "matmul",
    "matmul_gram",
    "orthogonalize",
    "pin",
    "plan",
    "project",
    "tune",
]
