"""BLAS's names and options on matrices, stacks (..., rows, columns) and lists of small matrices."""

from .products import gemm, herk, syrk

__all__ = ["gemm", "herk", "syrk"]
