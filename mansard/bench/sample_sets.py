"""The sets `sample`: a few sizes of every operation, what `mansard bench` and `make bench` measure.

The five together take about three minutes on two cores of a CPU, compiling and measuring ceilings included.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .batched import cases as batched_cases
from .batched import routines
from .cases import Case, Size, square
from .factor import cases as factor_cases
from .factor.operations import ONE_SIDED, TWO_SIDED
from .sparse import cases as sparse_cases
from .tall_skinny.orthogonal_cases import orthogonal
from .tall_skinny.skinny_cases import tsm2r

_WIDTHS, _MIDDLE = (4, 16, 64), (16,)
_PRODUCTS = (4, 16, 32)
_FACTORED = 16  # rows, of every operation
_FACTORED_TOO = {"solve": 32}
_SQUARE = 1000  # rows and columns of a product that is neither tall nor skinny
_SMALLER = 8  # part of a CPU's sparse matrices


def _some(cases: Iterable[Case], M: int, N: int) -> list[Case]:
    """The first float64 case with these sizes, as one of `sample`."""
    return [replace(case, set="sample") for case in cases if (case.dtype, case.M, case.N) == ("float64", M, N)][:1]


def gram(size: Size) -> list[Case]:
    """A few widths of A^H B, real and complex, and A^H A."""
    cases = square("sample", size, _WIDTHS, ("float64",)) + square("sample", size, _MIDDLE, ("complex128",))
    return cases + square("sample", size, _MIDDLE, ("float64",), same=True)


def matmul(size: Size) -> list[Case]:
    """A few widths of tall A times small C, Cholesky QR, a square product; on GPUs a large A times a skinny B."""
    cases = square("sample", size, _WIDTHS, ("float64",), operation="tsmm")
    cases += square("sample", size, _MIDDLE, ("complex128",), operation="tsmm")
    cases.append(replace(orthogonal(size)[-1], set="sample"))  # the one with peers
    sides = min(_SQUARE, int(size.elements["float64"] ** 0.5))
    cases.append(Case("sample", "float64", sides, sides, sides, temperature="hot", operation="matmul", mode="eager"))
    return cases + [replace(case, set="sample") for case in tsm2r(size)[:3:2] if size.backend == "cuda"]


def batched(size: Size) -> list[Case]:
    """A few sizes of batched products, matrices times vectors, triangular systems, and a ragged batch."""
    cases = batched_cases.squares("sample", size, _PRODUCTS, ("float64",))
    cases += _some(routines.gemv(size), 16, 1) + _some(routines.trsv(size), 16, 1)
    return cases + _some(routines.trsm(size), 16, 8) + _some(routines.ragged(size), 32, 32)


def factor(size: Size) -> list[Case]:
    """One size of every factorization, of systems, inverses and determinants; a second one of systems."""
    operations = ("eigh", "svd", *ONE_SIDED, *(one for one in TWO_SIDED if one not in ("eigh", "svd")))
    cases = factor_cases.squares("sample", size, operations, (_FACTORED,), ("float64",))
    for operation, n in _FACTORED_TOO.items():
        cases += factor_cases.squares("sample", size, (operation,), (n,), ("float64",))
    return cases


def powers(size: Size) -> list[Case]:
    """Products with a regular and an irregular matrix, and five powers."""
    part = 1 if size.backend == "cuda" else _SMALLER
    cases = sparse_cases.products("sample", size, ("27pt", "Kronecker"), part=part)
    return [*cases, sparse_cases.one("sample", size, "powers", "27pt", inner=5, part=part)]


SETS = {"gram": gram, "matmul": matmul, "batched": batched, "factor": factor, "powers": powers}
