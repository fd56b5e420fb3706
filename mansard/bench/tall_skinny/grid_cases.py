"""A grid of shapes for `ms.matmul`: whatever the shape, it must not be slower than the vendor's own call."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..cases import Case, Size

Shape = tuple[int, int, int, str]  # A is m x k, B k x n; layouts of A and B

_SQUARES = (64, 96, 100, 127, 128, 192, 256, 333, 384, 512, 640, 768, 1000, 1024, 1536, 2048, 3000, 3072, 4096)
_HEIGHTS = (10_000, 100_000, 1_000_000, 10_000_000)
_SMALL = (
    (1, 1), (2, 2), (3, 5), (4, 4), (7, 7), (8, 8), (8, 32), (16, 16), (32, 8), (32, 32), (33, 17), (64, 64),
    (100, 50), (128, 128),
)  # fmt: skip
_INNER = ((1, 1), (1, 32), (4, 4), (5, 11), (8, 8), (16, 16), (16, 64), (32, 32), (64, 64), (128, 128))
_LARGE = (2048, 4096, 5000, 8192, 10240, 16384, 20480)
_TINY = (
    (1, 1, 1), (2, 3, 4), (8, 8, 8), (16, 16, 16), (17, 31, 13), (32, 32, 32), (50, 50, 50), (64, 64, 8), (8, 64, 64),
    (100, 10, 100), (1, 1000, 1), (1000, 1, 1000), (128, 128, 1), (1, 128, 128),
)  # fmt: skip
_ODD = (
    (1000, 2000, 3000), (3000, 1000, 200), (511, 513, 515), (2047, 2049, 33), (1023, 129, 257), (777, 1500, 64),
    (5000, 300, 300), (300, 5000, 300), (300, 300, 5000), (100_000, 200, 200), (200, 100_000, 200), (129, 2100, 129),
    (20_000, 256, 64), (50_000, 129, 16), (4096, 64, 4096), (10_000, 16, 10_000), (10_000, 1, 10_000),
    (20_480, 4096, 8), (4096, 20_480, 8), (30_000, 3000, 16), (2500, 50_000, 4), (8, 4096, 4096), (32, 8192, 8192),
    (1, 4096, 4096), (16, 10_240, 10_240), (64, 20_000, 2000), (2000, 20_000, 64),
)  # fmt: skip


def _shapes(most: int) -> Iterator[Shape]:
    """All shapes; the long side of tall ones is cut where an operand would have more than `most` elements."""
    yield from ((m, m, m, "row") for m in _SQUARES)
    yield from ((min(rows, most // max(pair)), *pair, "row") for pair, rows in product(_SMALL, _HEIGHTS))
    for (m, n), rows in product(_INNER, _HEIGHTS):  # V^T W
        yield m, min(rows, most // max(m, n)), n, "col"
    yield from ((side, side, n, "row") for side, n in product(_LARGE, (1, 2, 4, 8, 16, 32)))
    yield from ((side, side, n, "col") for side, n in product((4096, 10_240, 20_480), (2, 8, 32)))
    yield from ((*shape, "row") for shape in (*_TINY, *_ODD))
    yield from ((m, m, m, layout) for m, layout in product((256, 512, 1024, 2048), ("col", "row-col", "col-col")))
    for width, layout in product((8, 16), ("col", "row-col")):
        yield min(1_000_000, most // width), width, width, layout
    yield from ((m, min(100_000, most // m), m, "row") for m in (4, 16, 64))  # wide, its rows not adjacent


def shapes(size: Size, dtype: str) -> list[Shape]:
    """Shapes of the grid that fit into memory and, on CPUs, take less than about a second."""
    most = 2 * size.elements[dtype]
    flops = {"cuda": 1e15, "cpu": 2e10}.get(size.backend, 1e8)

    def fits(shape: Shape) -> bool:
        m, k, n, _ = shape
        return min(m, k, n) > 0 and max(m * k, k * n, m * n) <= most and 2 * m * k * n <= flops

    return [shape for shape in dict.fromkeys(_shapes(most)) if fits(shape)]


def grid(size: Size) -> list[Case]:
    """ms.matmul on more than 200 shapes of all kinds against the array library's own call, on the device and called."""
    modes = ("eager", "device") if size.backend == "cuda" else ("eager",)
    return [
        Case("grid", dtype, m, n, k, layout, mode=mode, temperature="hot", operation="matmul")
        for dtype in ("float64", "float32")
        for (m, k, n, layout), mode in product(shapes(size, dtype), modes)
    ]
