"""A large matrix times a skinny one, over the sizes of TSM2R (Rivera et al.)."""

from __future__ import annotations

from itertools import product
from math import isqrt
from typing import Any

from ..cases import Case, Size, gpu_only

SIDES = (10240, 15360, 20480, 25600, 30720)  # rows and columns of A
DTYPES = ("float64", "float32")
_WIDTHS = (2, 4, 8, 16, 32)


def sides(size: Size, dtype: str, wanted: tuple[int, ...]) -> list[int]:
    """Sides of square A, cut to what fits: four times the elements of other sets, because B and C are small."""
    most = isqrt(4 * size.elements[dtype])
    return sorted({min(side, most) for side in wanted})


def square(name: str, dtype: str, side: int, n: int, layout: str, **options: Any) -> Case:
    return Case(name, dtype, side, n, side, layout, operation="tsm2r", **options)


@gpu_only
def tsm2r(size: Size) -> list[Case]:
    """TSM2R's sizes: large square A times 2 to 32 columns, both layouts, against cuBLAS and the read bandwidth."""
    cases = []
    for dtype, layout in product(DTYPES, ("row", "col")):
        for side in sides(size, dtype, SIDES):
            widths = sorted((*_WIDTHS, 3)) if side <= SIDES[0] else _WIDTHS
            cases += [square("tsm2r", dtype, side, n, layout) for n in widths]
    return cases


