"""Cases of `mansard bench powers`: products of sparse matrices with vectors, powers, and what limits them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import UsageError
from ..cases import Case, CaseSet, Sets, Size
from .matrices import FULL, MATRICES, is_file, kind_of, nominal_rows

COUNTS, _SOME = (2, 3, 4, 5, 8), (2, 5)  # powers
_SWEPT = ("band-27", "7pt", "27pt", "graphene", "delaunay")  # by all of them
BLOCKS = (4, 16)
_SMALLER = 8  # of a CPU's matrices, in the quick set


def entries(size: Size) -> int:
    """Entries of the largest matrix: those of the thesis on GPUs, more than the last cache holds on CPUs."""
    return max(1, min(FULL, size.elements["float64"]))


def one(name: str, size: Size, operation: str, matrix: str, dtype: str = "float64", **options: Any) -> Case:
    """A case; `part` divides the matrix' size."""
    room = entries(size) // options.pop("part", 1)
    columns = options.pop("N", 1)
    rows = options.pop("rows", None) or nominal_rows(matrix, room)
    return Case(name, dtype, kind_of(matrix).entries, columns, rows, operation=operation, form=matrix, **options)


def products(name: str, size: Size, chosen: Iterable[str], **options: Any) -> list[Case]:
    return [one(name, size, "spmv", matrix, **options) for matrix in chosen]


def quick(size: Size) -> list[Case]:
    """Products with four matrices, and five powers of two: about a minute on a CPU."""
    part = 1 if size.backend == "cuda" else _SMALLER
    cases = products("quick", size, ("27pt", "7pt", "delaunay", "Kronecker"), part=part)
    return cases + [one("quick", size, "powers", matrix, inner=5, part=part) for matrix in ("27pt", "graphene")]


def spmv(size: Size) -> list[Case]:
    """Table and figure 4.3: products with every matrix, every format; complex128 and float32 with some."""
    others = (("topological", "complex128"), ("27pt", "float32"))
    return products("spmv", size, MATRICES) + [one("spmv", size, "spmv", *other) for other in others]


def spmmv(size: Size) -> list[Case]:
    """Products with 4 and 16 vectors side by side."""
    chosen = ("band-27", "7pt", "27pt", "graphene", "delaunay")
    return [one("spmmv", size, "spmv", matrix, N=columns) for matrix in chosen for columns in BLOCKS]


def powers(size: Size) -> list[Case]:
    """Figures 4.5 and 4.9: 2 to 8 powers by every execution, over our own products and the peers'; of some matrices 2
    and 5."""
    return [
        one("powers", size, "powers", matrix, inner=p)
        for matrix in MATRICES
        for p in (COUNTS if matrix in _SWEPT else _SOME)
    ]


def of_file(path: str) -> CaseSet:
    """The set of one Matrix Market file: a product, and 2 to 8 powers."""
    if not is_file(path):
        raise UsageError(f"--matrix {path}: no such file; it takes Matrix Market files, .mtx or .mtx.gz")

    def file(size: Size) -> list[Case]:
        """A product with the matrix of a file, and 2 to 8 of its powers."""
        return [one("file", size, "spmv", path), *(one("file", size, "powers", path, inner=p) for p in COUNTS)]

    return file


SETS: Sets = {function.__name__: function for function in (quick, spmv, spmmv, powers)}
