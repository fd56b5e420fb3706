"""Sets of `mansard bench batched` beside products of one size: matrix times vector, triangular systems, any sizes.

Figures of Dong are those of his dissertation on batched linear algebra on GPUs. His matrices are column-major and ours
row-major: in memory his A x goes along the lines that our A^T x does.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from ...plan.problem import DTYPES, ITEMSIZE
from ..cases import Case, Size

_PLENTY = 384 << 20  # bytes
_SQUARES = (4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256)
_LENGTHS = (32, 64, 128, 256, 512)
_SOME = (4, 8, 16, 32, 64, 128, 256)  # of other dtypes
_SYSTEMS = (*range(2, 33), 40, 48, 64, 96, 128, 192, 256)
_SIDES = (2, 4, 8, 16, 32, 64, 128)
_COLUMNS = (2, 8, 32)
_RAGGED, _RANDOM = (32, 128), (32, 64, 128, 192, 256)


def count(size: Size, dtype: str, elements: float) -> int:
    """Matrices of so many elements each, operands and result: together three times the elements of an operand out of
    cache on GPUs. On CPUs, where that is about as large as the last cache, four times, or twice where that is a lot:
    peers who take a microsecond per matrix should end, too."""
    together = 3 * size.elements[dtype]
    if size.backend == "cpu":
        most = max(2 * size.elements[dtype], _PLENTY // ITEMSIZE[dtype])
        together = min(4 * size.elements[dtype], most)
    return max(1, int(together / elements))


def _vectors(name: str, size: Size, dtype: str, rows: int, columns: int, form: str) -> Case:
    matrices = count(size, dtype, rows * columns + rows + columns)
    return Case(name, dtype, rows, 1, matrices, operation="gemv", inner=columns if columns != rows else 0, form=form)


def _gemv(name: str, size: Size, form: str) -> list[Case]:
    shapes = [(n, n) for n in _SQUARES]
    shapes += [(rows, columns) for columns, rows in product((8, 16, 32), _LENGTHS) if rows > columns]
    shapes += [(rows, columns) for rows, columns in product((16, 32), _LENGTHS) if columns > rows]
    cases = [_vectors(name, size, "float64", *shape, form) for shape in shapes]
    others = [(dtype, n) for dtype in DTYPES if dtype != "float64" for n in _SOME]
    return cases + [_vectors(name, size, dtype, n, n, form) for dtype, n in others]


def gemv(size: Size) -> list[Case]:
    """A x: square, tall (8, 16, 32 columns) and wide (16, 32 rows) (figures 3.25 to 3.30 of Dong)."""
    return _gemv("gemv", size, "")


def gemvt(size: Size) -> list[Case]:
    """A^T x: the same shapes (figures 3.19 to 3.24 of Dong)."""
    return _gemv("gemvt", size, "T")


def _systems(name: str, size: Size, sizes: Iterable[tuple[int, int]], dtypes: Iterable[str], form: str) -> list[Case]:
    operation = name  # one right-hand side is a vector
    return [
        Case(name, dtype, n, columns, count(size, dtype, n * n + 2 * n * columns), operation=operation, form=form)
        for dtype, (n, columns) in product(dtypes, sizes)
    ]


def trsv(size: Size) -> list[Case]:
    """Forward and backward substitution, one right-hand side (figures 4.4 and 4.5 of Dong)."""
    cases: list[Case] = []
    for form in ("", "U"):
        cases += _systems("trsv", size, [(n, 1) for n in _SYSTEMS], ["float64"], form)
    others = [dtype for dtype in DTYPES if dtype != "float64"]
    return cases + _systems("trsv", size, [(n, 1) for n in _SOME[:4]], others, "")


def trsm(size: Size) -> list[Case]:
    """Triangular systems with 2, 8 and 32 right-hand sides."""
    sizes = list(product(_SIDES, _COLUMNS))
    cases = _systems("trsm", size, sizes, ["float64"], "") + _systems("trsm", size, sizes, ["float64"], "U")
    others = [dtype for dtype in DTYPES if dtype != "float64"]
    return cases + _systems("trsm", size, [(n, 8) for n in (8, 16, 32)], others, "")


def _ragged(size: Size, dtype: str, largest: int, vectors: bool) -> Case:
    squares, sizes = (largest + 1) * (2 * largest + 1) / 6, (largest + 1) / 2  # on average
    matrices = count(size, dtype, squares + 2 * sizes if vectors else 3 * squares)
    options: dict[str, Any] = {"operation": "ragged"}
    return Case("ragged", dtype, largest, 1 if vectors else largest, matrices, **options)


def ragged(size: Size) -> list[Case]:
    """Square matrices of any size from 1 to n, times others or vectors (figure 3.30 of Dong), beside equal ones."""
    products = [_ragged(size, dtype, n, False) for dtype, n in product(("float64", "complex128"), _RAGGED)]
    return products + [_ragged(size, "complex128", n, True) for n in _RANDOM]
