"""The experiments of Panzlaff's thesis on powers of sparse matrices: formats (figures 3.2 to 3.8), small matrices (4.4
and 4.6), level groups by budget (table 4.4, figure 4.8), and level groups over p and over sizes."""

from __future__ import annotations

from itertools import product
from typing import Any

from mansard.bench.cases import Case, Size
from mansard.bench.sparse.cases import entries, one

STENCILS = ("7pt", "27pt")
BUDGETED = "27pt"
_RAMP = ("band-27", 27)  # the matrix, and entries of a row
_RAMP_BYTES, _TINY_BYTES = range(18, 29), range(12, 15)  # of the matrix, as powers of two; of one that is emulated
_SORTED = ("delaunay", "Kronecker", "road")
_LANES = (1, 2, 4, 8, 16, 32)
_WINDOWS = (1, 32, 256, 4096, 65536)
_POWERS = (2, 3, 4, 5, 6, 7, 8)
_BUDGETS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96)  # MiB


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


def thesis(size: Size) -> list[Case]:
    """Figures 3.2 to 3.7 and 4.6: powers over p by level groups and by plain products, and level groups by size."""
    executions = ("plain", "groups")
    cases = [
        one("thesis", size, "powers", matrix, inner=p, pins=(("execution", execution),), peers=False)
        for matrix, execution, p in product(STENCILS, executions, _POWERS)
    ]
    matrix, width = _RAMP
    sizes = [bits for bits in _RAMP_BYTES if 1 << bits <= 24 * entries(size)] or list(_TINY_BYTES)
    options: dict[str, Any] = {"mode": "graph", "temperature": "hot", "peers": False, "inner": 5}
    pins = (("execution", "groups"),)
    return cases + [one("thesis", size, "powers", matrix, rows=(1 << bits) // (12 * width), pins=pins, **options)
                    for bits in sizes]  # fmt: skip
