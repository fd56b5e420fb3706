"""What `mansard bench powers` measures: products of sparse matrices with vectors, their powers, what limits them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..cases import Case, Sets, Size
from .matrices import FULL, MATRICES, nominal_rows

COUNTS, _SOME = (2, 3, 4, 5, 8), (2, 5)  # powers
_SWEPT = ("band-27", "7pt", "27pt", "graphene", "delaunay")  # by all of them
BLOCKS = (4, 16)
STENCILS = ("7pt", "27pt")
BUDGETED = "27pt"
_SMALLER = 8  # of a CPU's matrices, in the quick set
_RAMP = ("band-27", 27)  # the matrix, and entries of a row
_RAMP_BYTES, _TINY_BYTES = range(18, 29), range(12, 15)  # of the matrix, as powers of two; of one that is emulated
_SORTED = ("delaunay", "Kronecker", "road")
_LANES = (1, 2, 4, 8, 16, 32)
_WINDOWS = (1, 32, 256, 4096, 65536)
_BUDGETS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96)  # MiB


def entries(size: Size) -> int:
    """Room for so many entries: those of the thesis on GPUs, out of the last cache on CPUs."""
    return max(1, min(FULL, size.elements["float64"]))


def one(name: str, size: Size, operation: str, matrix: str, dtype: str = "float64", **options: Any) -> Case:
    """A case; `part` divides the matrix' size."""
    room = entries(size) // options.pop("part", 1)
    columns = options.pop("N", 1)
    rows = options.pop("rows", None) or nominal_rows(matrix, room)
    return Case(name, dtype, MATRICES[matrix].entries, columns, rows, operation=operation, form=matrix, **options)


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


def formats(size: Size) -> list[Case]:
    """Figures 3.2 to 3.8: chunks, threads per row, sorting and index widths, one by one."""
    cases = []
    for matrix in STENCILS:
        pins: list[dict[str, Any]] = [{"format": "csr", "threads": lanes} for lanes in _LANES]
        for index in ("int32", "delta16"):
            pins += [{"format": "sell", "C": 32 // lanes, "sigma": 1, "index": index} for lanes in _LANES]
        cases += [_pinned(size, matrix, each) for each in (*pins, {"format": "ell"})]
    for matrix in _SORTED:
        sorted_by = [{"format": "sell", "C": 32, "sigma": sigma, "index": "int32"} for sigma in _WINDOWS]
        cases += [_pinned(size, matrix, {"format": "csr"}), *(_pinned(size, matrix, each) for each in sorted_by)]
    return cases


def _pinned(size: Size, matrix: str, pins: dict[str, Any]) -> Case:
    return one("formats", size, "spmv", matrix, pins=tuple(pins.items()), peers=False)


def cache(size: Size) -> list[Case]:
    """Figures 4.4 and 4.6: how products and powers of small matrices gain speed, and where caches end."""
    matrix, width = _RAMP
    every = [bits for bits in _RAMP_BYTES if 1 << bits <= 24 * entries(size)] or _TINY_BYTES
    hot: dict[str, Any] = {"mode": "graph", "temperature": "hot", "peers": False}
    return [
        one("cache", size, operation, matrix, rows=(1 << bits) // (12 * width), inner=p, **hot)
        for operation, p in (("spmv", 0), ("powers", 5))
        for bits in every
    ]


def budget(size: Size) -> list[Case]:
    """Figure and table 4.8 and 4.4: five powers by level groups that are to fit more and more of the cache."""
    return [
        one("budget", size, "powers", BUDGETED, inner=5, pins=(("execution", "groups"), ("budget", mib)), peers=False)
        for mib in _BUDGETS
    ]


SETS: Sets = {function.__name__: function for function in (quick, spmv, spmmv, powers, formats, cache, budget)}
