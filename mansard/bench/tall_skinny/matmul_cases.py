"""Cases of `mansard bench matmul`: a tall matrix times a small one, and the other shapes that `ms.matmul` answers."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from ..cases import LAYOUTS, PADDING, RECTANGLES, WIDTHS, Case, Sets, Size, rectangle, square
from .grid_cases import grid
from .orthogonal_cases import orthogonal
from .skinny_cases import tsm2r

_QUICK = (1, 2, 3, 4, 7, 8, 12, 16, 17, 24, 31, 32, 48, 64)
_HEIGHTS = (10_000, 100_000, 1_000_000, 10_000_000)  # of TSM2L


def quick(size: Size) -> list[Case]:
    """Tall A times small C: the widths that tell most."""
    dtypes = ["float64", "complex128"] if size.backend != "cuda" else ["float64", "complex128", "float32", "complex64"]
    return square("quick", size, _QUICK, dtypes, operation="tsmm")


def full(size: Size) -> list[Case]:
    """Tall A times small C: every width from 1 to 64 (figures 4 and 23 of Ernst et al.)."""
    dtypes = ("float64", "complex128", "float32", "complex64") if size.backend == "cuda" else ("float64", "complex128")
    return square("full", size, WIDTHS, dtypes, operation="tsmm")


def rectangular(size: Size) -> list[Case]:
    """Tall A times small C that is not square."""
    return rectangle("rectangular", size, RECTANGLES, ("float64", "float32", "complex128"), operation="tsmm")


def layouts(size: Size) -> list[Case]:
    """Tall A as it comes (column-major, padded, unaligned); the result is a fresh array."""
    cases = []
    for layout, dtype, m in product(LAYOUTS[1:], ("float64", "float32"), (1, 4, 8, 13, 16, 32, 64)):
        rows = size.elements[dtype] // (m + (PADDING if layout == "padded" else 1))
        cases.append(Case("layouts", dtype, m, m, rows - rows % 2, layout, operation="tsmm"))
    return cases


def tsm2l(size: Size) -> list[Case]:
    """TSM2L's sizes: 8 and 16 columns, 1e4 to 1e7 rows; in a graph, from Python, and the longest alone."""
    modes = [("graph", "cold"), ("graph", "hot"), ("eager", "cold"), ("eager", "hot"), ("device", "")]
    cases = []
    for dtype, (mode, heat), m in product(("float64", "float32"), modes[2 * (size.backend == "cpu") :], (8, 16)):
        for rows in sorted({min(rows, size.rows(dtype, m)) for rows in _HEIGHTS[2 if mode == "device" else 0 :]}):
            case = Case("tsm2l", dtype, m, m, rows, mode=mode, operation="tsmm")
            fits = case.bytes <= 2 * size.cache_bytes  # in the cache, wholly or in part
            if heat != "hot" or fits:
                cases.append(replace(case, temperature=heat or ("hot" if fits else "cold")))
    return cases


SETS: Sets = {
    function.__name__: function
    for function in (
        quick, full, rectangular, layouts, tsm2l, tsm2r, grid, orthogonal,
    )
}  # fmt: skip
