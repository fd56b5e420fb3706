"""BLAS's names and options on matrices, stacks (..., rows, columns) and lists of small matrices."""

from .products import gemm, herk, syrk
from .triangular import trmm, trsm, trsv
from .vectors import gemv

__all__ = ["gemm", "gemv", "herk", "syrk", "trmm", "trsm", "trsv"]


def __dir__() -> list[str]:
    return __all__
