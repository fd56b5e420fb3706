"""BLAS's names and options on matrices, stacks (..., rows, columns) and lists of small matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..operations.lazy import exporting

if TYPE_CHECKING:
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

# Modules are loaded with the first of their functions that is used.
_HOMES = {
    "level1": ("axpy", "dot", "ger", "iamax", "scal", "swap"),
    "products": ("gemm", "herk", "syrk"),
    "rank2": ("her2k", "syr2k"),
    "triangular": ("trmm", "trsm", "trsv"),
    "vectors": ("gemv",),
}

__getattr__ = exporting(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
