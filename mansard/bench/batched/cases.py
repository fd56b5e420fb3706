"""Cases of `mansard bench batched`: small products; routines.py has the other batched operations."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from ...plan.problem import DTYPES
from ..cases import Case, Sets, Size
from .routines import count, gemv, gemvt, ragged, trsm, trsv

_QUICK = (2, 4, 8, 16, 32)
_SMALL = tuple(range(2, 33))
_LARGE = (40, 48, 64, 96, 128)
_RECTANGLES = (
    (2, 3, 4), (4, 2, 8), (1, 8, 8), (8, 1, 8), (3, 16, 5), (16, 4, 16), (7, 13, 11), (12, 24, 6), (32, 8, 8),
    (8, 32, 16), (17, 31, 23), (32, 16, 32),
)  # fmt: skip
_FEW = (100, 16)  # matrices, and their size


def batch(size: Size, dtype: str, M: int, N: int, inner: int) -> int:
    """Number of products whose operands are out of cache."""
    return count(size, dtype, M * inner + inner * N + M * N)


def squares(name: str, size: Size, sizes: Iterable[int], dtypes: Iterable[str], **options: Any) -> list[Case]:
    return [
        Case(name, dtype, n, n, batch(size, dtype, n, n, n), operation="gemm", **options)
        for dtype, n in product(dtypes, sizes)
    ]


def quick(size: Size) -> list[Case]:
    """Batches of square products: float64, the sizes that tell most."""
    return squares("quick", size, _QUICK, ("float64",))


def full(size: Size) -> list[Case]:
    """Square products, every size from 2 to 32 and some to 128, all dtypes (figures 5 to 8 of Masliah et al.)."""
    return squares("full", size, (*_SMALL, *_LARGE), ("float64", *(d for d in DTYPES if d != "float64")))


def accumulate(size: Size) -> list[Case]:
    """A B + C (beta = 1), every size from 2 to 32."""
    return squares("accumulate", size, _SMALL, ("float64",), accumulate=True)


def rectangular(size: Size) -> list[Case]:
    """Products of m x k and k x n matrices up to 32."""
    return [
        Case("rectangular", "float64", m, n, batch(size, "float64", m, n, k), operation="gemm", inner=k)
        for m, n, k in _RECTANGLES
    ]


def small(size: Size) -> list[Case]:
    """A hundred 16 x 16 products, products with vectors, systems: time of a call in a graph and from Python."""
    matrices, n = _FEW
    modes = ("eager",) if size.backend == "cpu" else ("graph", "eager")
    return [
        Case("small", "float64", n, columns, matrices, mode=mode, temperature="hot", operation=operation)
        for (operation, columns), mode in product((("gemm", n), ("gemv", 1), ("trsv", 1)), modes)
    ]


SETS: Sets = {
    function.__name__: function
    for function in (
        quick, full, accumulate, rectangular, small, gemv, gemvt, trsv, trsm, ragged,
    )
}  # fmt: skip
