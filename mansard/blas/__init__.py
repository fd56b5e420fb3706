"""BLAS's names and options on matrices, stacks (..., rows, columns) and lists of small matrices."""

from ..operations.transformable import export
from .level1 import axpy, dot, ger, iamax, scal, swap
from .products import gemm, herk, syrk
from .rank2 import her2k, syr2k
from .triangular import trmm, trsm, trsv
from .vectors import gemv

__all__ = [
    "axpy",
    "dot",
    "gemm",
    "gemv",
    "ger",
    "her2k",
    "herk",
    "iamax",
    "scal",
    "swap",
    "syr2k",
    "syrk",
    "trmm",
    "trsm",
    "trsv",
]

export(globals(), __all__)


def __dir__() -> list[str]:
    return __all__
