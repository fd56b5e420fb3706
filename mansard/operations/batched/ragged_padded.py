"""Ragged triangular systems on GPUs: a class of sizes becomes a stack, and one kernel solves it.

A matrix A of order n in a class of order N is followed by the unit matrix, and its right-hand sides by zeros:

    [A 0] [X]   [B]
    [0 I] [0] = [0]

The unknowns of A see products with exact zeros only, so that they are those of A alone, and a singular matrix spoils
nobody but itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...arrays.types import Array
from ..factor.task import zeros
from ..ragged import Ragged
from ..ragged_indices import Indices, all_entries

BOUNDS = (4, 8, 16, 32, 64)  # the largest order, or number of right-hand sides, of a class; beyond, multiples of 64


class _Class(NamedTuple):
    shape_a: tuple[int, int, int]
    shape_b: tuple[int, int, int]
    from_a: Indices
    to_a: Indices
    ones: Indices
    from_b: Indices
    to_b: Indices
    to_x: Indices


def bounds_of(sizes: Array) -> Array:
    """The bound of the class of each size; right-hand sides of one column are a class of their own."""
    sizes = np.asarray(sizes)
    found = np.array(BOUNDS)[np.minimum(np.searchsorted(BOUNDS, sizes), len(BOUNDS) - 1)]
    return np.where(sizes > BOUNDS[-1], -(-sizes // BOUNDS[-1]) * BOUNDS[-1], found)


class PaddedRun:
    """Systems of one form, for tables (rows, columns, offsets) of A, B and X."""

    def __init__(self, solve: Callable[..., Array], form: Any, tables: Sequence[Sequence[Array]], count: int) -> None:
        self.solve, self.form, left = solve, form, form.side == "left"
        a, b, x = ([np.broadcast_to(one, (count,)) for one in table] for table in tables)
        order, right = a[0], b[1 if left else 0]
        wide = np.where(right == 1, 1, bounds_of(right))
        classes = np.stack([bounds_of(order), wide], 1)
        some = order * right > 0
        self.classes = [
            _class(np.flatnonzero(some & (classes == one).all(1)), tuple(map(int, one)), left, (a, b, x))
            for one in np.unique(classes[some], axis=0)[::-1]
        ]

    def __call__(self, A: Ragged, B: Ragged, X: Ragged, alpha: complex, backend: str | None) -> None:
        """Gather, solve and scatter, class by class, the largest first."""
        kind, dtype = A._kind, A._view.dtype
        for one in self.classes:
            a, b = (zeros(kind, shape, dtype, A.buffer) for shape in (one.shape_a, one.shape_b))
            flat_a, flat_b = a.reshape(-1), b.reshape(-1)
            flat_a[one.to_a.beside(A)] = A.buffer[one.from_a.beside(A)]
            flat_a[one.ones.beside(A)] = 1
            flat_b[one.to_b.beside(A)] = B.buffer[one.from_b.beside(A)]
            self.solve(a, b, b, alpha, backend, self.form)
            X.buffer[one.to_x.beside(A)] = flat_b[one.to_b.beside(A)]


def _class(members: Array, bounds: tuple[int, ...], left: bool, tables: Sequence[Sequence[Array]]) -> _Class:
    order, wide = bounds
    a, b, x = ([one[members] for one in table] for table in tables)
    rows, columns = (order, wide) if left else (wide, order)
    place_a, matrix_a, row_a, column_a = all_entries(*a)
    place_b, matrix_b, row_b, column_b = all_entries(*b)
    diagonal = np.arange(order)
    matrix, row = np.nonzero(diagonal[None] >= a[0][:, None])
    inside_a, inside_b = (matrix_a * order + row_a) * order + column_a, (matrix_b * rows + row_b) * columns + column_b
    count = len(members)
    return _Class(
        (count, order, order), (count, rows, columns), _indices(place_a), _indices(inside_a),
        _indices((matrix * order + row) * order + row), _indices(place_b), _indices(inside_b),
        _indices(all_entries(*x)[0]),
    )  # fmt: skip


def _indices(place: Array) -> Indices:
    return Indices(place, None, None)
