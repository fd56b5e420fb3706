"""Scaled products C = alpha A B + beta C by an array library's BLAS: how a batch of them lies in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Product = Callable[[Any, Any, Any, complex, complex], None]  # (A, B, C, alpha, beta): C = alpha A B + beta C

LETTER = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}  # of BLAS routines


class Gemm(NamedTuple):
    """`batch` products of matrices that lie at equal distances in three arrays: A, B and C in this order. Strides,
    distances and offsets count elements."""

    dtype: str
    shapes: tuple[tuple[int, int], ...]  # rows and columns: (m, k), (k, n), (m, n)
    layouts: tuple[tuple[str, int], ...]  # "row" or "col", and the distance between rows or columns
    strides: tuple[tuple[int, ...], ...]  # between rows, and between columns
    steps: Sequence[int]  # between matrices
    starts: Sequence[Sequence[int]]  # offsets of the first matrices, for one call of the routine after the other
    batch: int
    conjugated: tuple[bool, bool]  # A, B


def scalars(dtype: str, *given: complex) -> list[complex]:
    """alpha and beta: real numbers for real matrices, however they were given."""
    if dtype.startswith("complex"):
        return list(given)
    if any(complex(factor).imag for factor in given):
        raise TypeError(f"alpha and beta must be real for {dtype} matrices")
    return [complex(factor).real for factor in given]
