"""What `mansard bench matmul` measures: a tall matrix times a small one."""

from __future__ import annotations

from itertools import product

from .cases import LAYOUTS, PADDING, RECTANGLES, WIDTHS, Case, Sets, Size, rectangle, square

_QUICK = (1, 2, 3, 4, 7, 8, 12, 16, 17, 24, 31, 32, 48, 64)
_HEIGHTS = (10_000, 100_000, 1_000_000, 10_000_000)  # of TSM2L


def quick(size: Size) -> list[Case]:
    """The widths that tell most."""
    dtypes = ["float64", "complex128"] if size.backend != "cuda" else ["float64", "complex128", "float32", "complex64"]
    return square("quick", size, _QUICK, dtypes, operation="tsmm")


def full(size: Size) -> list[Case]:
    """Every width from 1 to 64."""
    dtypes = ("float64", "complex128", "float32", "complex64") if size.backend == "cuda" else ("float64", "complex128")
    return square("full", size, WIDTHS, dtypes, operation="tsmm")


def rectangular(size: Size) -> list[Case]:
    return rectangle("rectangular", size, RECTANGLES, ("float64", "complex128"), operation="tsmm")


def layouts(size: Size) -> list[Case]:
    """A as it comes; the result is a fresh array."""
    cases = []
    for layout, dtype, m in product(LAYOUTS[1:], ("float64", "float32"), (1, 4, 8, 13, 16, 32, 64)):
        rows = size.elements[dtype] // (m + (PADDING if layout == "padded" else 1))
        cases.append(Case("layouts", dtype, m, m, rows - rows % 2, layout, operation="tsmm"))
    return cases


def heights(size: Size) -> list[Case]:
    """The sizes of TSM2L: few columns, rows from ten thousand to ten million; in a graph, and from Python."""
    return [
        Case("heights", dtype, m, m, rows, mode=mode, temperature="hot", operation="tsmm")
        for mode, dtype, rows, m in product(("graph", "eager"), ("float32", "float64"), _HEIGHTS, (8, 16))
        if rows * m <= size.elements[dtype]
    ]


SETS: Sets = {function.__name__: function for function in (quick, full, rectangular, layouts, heights)}
