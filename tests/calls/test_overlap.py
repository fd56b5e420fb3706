"""Results beside, inside and around their operands: one common element is refused, neighbours are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mansard as ms

A = np.random.default_rng(0).integers(-3, 4, (50, 4)).astype(float)
VALUES = np.random.default_rng(1).integers(-3, 4, (50, 3)).astype(float)


def around(first: int, backwards: bool = False) -> tuple[Any, Any]:
    """B (50 x 3) in the middle of a buffer, and out (4 x 3) from element `first` on, counted from B's lowest one."""
    buffer = np.zeros(12 + 150 + 12)
    B = buffer[12:162].reshape(50, 3)
    B = B[::-1] if backwards else B
    B[...] = VALUES
    return B, buffer[12 + first : 24 + first].reshape(4, 3)


@pytest.mark.parametrize("operation", ["first", "later", "scaled"])
def test_one_element_in_common_is_refused_and_neighbours_are_not(operation: str) -> None:
    alpha = 2.0 if operation == "scaled" else 1.0
    if operation == "later":  # the first call of this shape has been checked
        ms.gram(A, around(0)[0], out=np.empty((4, 3)))
    for first in (-12, 150):
        B, out = around(first)
        assert (ms.gram(A, B, out=out, alpha=alpha) == alpha * (A.T @ VALUES)).all() and (B == VALUES).all()
    for first in (-11, 149):
        B, out = around(first)
        before = B.copy()
        with pytest.raises(ValueError, match="out overlaps B"):
            ms.gram(A, B, out=out, alpha=alpha)
        assert (before == B).all()


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_neighbours_of_the_first_operand_are_not_refused(alpha: float) -> None:
    buffer = np.zeros(9 + 150 + 9)
    first = buffer[9:159].reshape(50, 3)
    first[...] = VALUES
    for begin in (0, 159):
        out = buffer[begin : begin + 9].reshape(3, 3)
        assert (ms.gram(first, VALUES, out=out, alpha=alpha) == alpha * (VALUES.T @ VALUES)).all()
    with pytest.raises(ValueError, match="out overlaps A"):
        ms.gram(first, VALUES, out=buffer[158:167].reshape(3, 3), alpha=alpha)


@pytest.mark.parametrize("backwards", [False, True])
def test_products_of_the_array_library_refuse_too(backwards: bool) -> None:
    left = np.ones((4, 50))
    for first in (-12, 150):
        B, out = around(first, backwards)
        assert (ms.matmul(left, B, out=out) == left @ VALUES).all()
    for first in (-11, 149):
        B, out = around(first, backwards)
        with pytest.raises(ValueError, match="out overlaps B"):
            ms.matmul(left, B, out=out)


def test_a_product_in_place_does_not_depend_on_what_ran_before() -> None:
    """Of arrays alike, a result apart and a result in A's place."""
    tall, square = VALUES[:40].copy(), np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 2]])
    expected = tall @ square
    assert (ms.matmul(tall, square, out=np.empty((40, 3))) == expected).all()
    assert ms.matmul(tall, square, out=tall) is tall and (tall == expected).all()
    assert (ms.matmul(tall, square, out=np.empty((40, 3))) == expected @ square).all()


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_nan_in_out_does_not_leak_from_the_array_library(alpha: float) -> None:
    """Also where its result is copied to strides that it does not write."""
    for out in (np.full((4, 3), np.nan), np.full((8, 6), np.nan)[::2, ::2]):
        ms.gram(A, VALUES, out=out, alpha=alpha, backend="reference")
        assert (out == alpha * (A.T @ VALUES)).all()
