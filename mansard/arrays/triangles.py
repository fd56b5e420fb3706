"""Triangles of square matrices by index arrays, for libraries that take those and have no masked copy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=64)
def _entries(order: int, lower: bool, diagonal: bool) -> tuple[list[int], list[int]]:
    """Rows and columns of the entries of a triangle."""
    found = [(i, j) for i in range(order) for j in range(i + diagonal)]
    rows, columns = [i for i, _ in found], [j for _, j in found]
    return (rows, columns) if lower else (columns, rows)


def put(array: Any, values: Any, lower: bool) -> None:
    """Write one triangle of `values`, with the diagonal, to that of `array`."""
    rows, columns = _entries(array.shape[-1], lower, True)
    array[..., rows, columns] = values[..., rows, columns]


def mirror(array: Any, lower: bool, conjugated: bool) -> None:
    """Make one triangle the transpose, or the adjoint, of the other one, which is `lower` or the upper one."""
    rows, columns = _entries(array.shape[-1], lower, False)
    values = array[..., rows, columns]
    array[..., columns, rows] = values.conj() if conjugated else values
