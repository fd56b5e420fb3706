"""The sets `readme`: what the tables of docs/performance.md show, and the sizes that were worst when all were measured.

Measured on an H200 with seven samples and all peers the five sets take about eight minutes together; what matters most
comes first, so that a time limit leaves out the rest.
"""

from __future__ import annotations

from .batched import cases as batched_cases
from .cases import Case, Size, square
from .factor import cases as factor_cases
from .sparse import cases as sparse_cases

WIDTHS = (1, 2, 3, 4, 8, 12, 16, 24, 31, 32, 33, 40, 48, 56, 64)
PRODUCT_SIZES = (2, 3, 4, 5, 8, 12, 16, 20, 24, 28, 31, 32)
FACTOR_SIZES = (4, 8, 16, 24, 32, 64, 128, 256)
# Sizes with the least per cent of the bandwidth (factorizations: the least multiple of the best peer) among all sizes
# measured (H200, 2026-11); sizes that the table shows anyway are left out.
_WORST_GRAM = {"float64": (), "complex128": (57,), "float32": (49,), "complex64": (41,)}
_WORST_MATMUL = {"float64": (62,), "complex128": (57,), "float32": (), "complex64": (57,)}
_WORST_FACTOR = {"cholesky": (512,), "lu": (2,), "qr": (2,), "solve": (384,), "inverse": (2,)}
_POWERS = 5
# the last three take longest to make
_FORMS = ("27pt", "7pt", "band-27", "graphene", "HPCG", "topological", "channel", "band-7", "Anderson", "delaunay",
          "Kronecker", "road")  # fmt: skip


def gram(size: Size) -> list[Case]:
    """Cases of the published table of `gram`: 15 widths of each dtype, and the worst width."""
    return [
        case
        for dtype, worst in _WORST_GRAM.items()
        for case in square("readme", size, (*WIDTHS, *worst), (dtype,))
    ]  # fmt: skip


def matmul(size: Size) -> list[Case]:
    """Cases of the published table of A C: 15 widths of each dtype, and the worst width."""
    return [
        case
        for dtype, worst in _WORST_MATMUL.items()
        for case in square("readme", size, (*WIDTHS, *worst), (dtype,), operation="tsmm")
    ]  # fmt: skip


def batched(size: Size) -> list[Case]:
    """Cases of the published table of batched products: float64, 12 sizes."""
    return batched_cases.squares("readme", size, PRODUCT_SIZES, ("float64",))


def factor(size: Size) -> list[Case]:
    """Cases of the published table of factorizations: five operations on float64, 8 sizes and the worst of each."""
    return [
        case
        for operation, worst in _WORST_FACTOR.items()
        for case in factor_cases.squares("readme", size, (operation,), (*FACTOR_SIZES, *worst), ("float64",))
    ]  # fmt: skip


def powers(size: Size) -> list[Case]:
    """Cases of the published table of sparse matrices: a product and five powers of each."""
    return [
        sparse_cases.one("readme", size, operation, matrix, inner=inner)
        for matrix in _FORMS
        for operation, inner in (("spmv", 0), ("powers", _POWERS))
    ]  # fmt: skip


SETS = {"gram": gram, "matmul": matmul, "batched": batched, "factor": factor, "powers": powers}
