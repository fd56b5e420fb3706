"""BLAS's names and options on matrices, stacks (..., rows, columns) and lists of small matrices."""

from ..operations.transformable import export
from .products import gemm, herk, syrk
from .triangular import trmm, trsm, trsv
from .vectors import gemv

__all__ = ["gemm", "gemv", "herk", "syrk", "trmm", "trsm", "trsv"]

export(globals(), __all__)


def __dir__() -> list[str]:
    return __all__
