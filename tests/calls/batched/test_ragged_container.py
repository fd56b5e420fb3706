"""`ms.Ragged`: sizes, offsets, lists, views, memory."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
from ragged_cases import (
    operands,
    same,
    sizes_of,
)

import mansard as ms

# ---- the container ----------------------------------------------------------------------------------------


def test_examples() -> None:
    from mansard.operations import ragged as module

    assert doctest.testmod(module).failed == 0


def test_from_list_aligns_and_copies_once() -> None:
    matrices = [np.full((i, 3), float(i)) for i in range(5)]
    r = ms.Ragged.from_list(matrices)
    assert len(r) == 5 and r.shapes == [(i, 3) for i in range(5)] and r.dtype == np.float64 and r.device == "cpu"
    assert all((x == y).all() for x, y in zip(r, matrices, strict=True))
    assert all(one.ctypes.data % 16 == 0 for one in r if one.size)
    assert "5 matrices, 0..4 x 3, float64, cpu" in repr(r)
    r[3][1, 2] = 77
    assert r.buffer[r.layout.host()[2][3] + 5] == 77 and matrices[3][1, 2] == 3  # a view of the buffer, not of the list


def test_buffer_is_not_copied() -> None:
    buffer = np.arange(20.0)
    r = ms.Ragged(buffer, [2, 3, 1], [3, 2, 4])
    assert r.buffer is buffer and r[1].base is not None and r[-1].tolist() == [[12, 13, 14, 15]]
    part = r[1:]
    assert isinstance(part, ms.Ragged) and part.shapes == [(3, 2), (1, 4)] and np.shares_memory(part[0], buffer)
    assert [x.tolist() for x in r[::-1]] == [x.tolist() for x in reversed(r.to_list())]
    fixed = ms.Ragged(buffer, 2, [1, 2], offsets=[15, 0])
    assert fixed[0].tolist() == [[15], [16]] and fixed.shapes == [(2, 1), (2, 2)]
    with pytest.raises(IndexError):
        r[3]


def test_new_ones() -> None:
    r = ms.Ragged.zeros([2, 0, 3], [1, 5, 3], "complex64")
    assert r.dtype == np.complex64 and not r.buffer.any() and r.shapes == [(2, 1), (0, 5), (3, 3)]
    other = ms.Ragged.empty_like(r)
    assert other.layout is r.layout and not np.shares_memory(other.buffer, r.buffer)
    assert ms.Ragged.empty([], []).shapes == [] and "no sizes" in repr(ms.Ragged.empty([], []))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones((2, 2)), [1], [1]), ValueError, "one run"),
        ((np.ones(8)[::2], [1], [1]), ValueError, "one run"),
        ((np.ones(8, int), [1], [1]), TypeError, "dtype int64"),
        ((np.ones(8), [1, 2], [1, 2, 3]), ValueError, "rows has 2, columns has 3"),
        ((np.ones(8), [1, -2], [1, 2]), ValueError, r"rows\[1\] is -2"),
        ((np.ones(8), [1.5], [1]), TypeError, "rows has dtype float64"),
        ((np.ones(8), [2, 2], [2, 3]), ValueError, "matrix 1 ends at element 10, and the buffer has 8"),
        ((np.ones(8), [2, 2], [2, 2], [0, 5]), ValueError, "matrix 1 ends at element 9"),
        (([1.0, 2.0], [1], [1]), TypeError, "buffer is a"),
    ],
)
def test_bad_containers(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ms.Ragged(*arguments)


def test_bad_lists() -> None:
    with pytest.raises(ValueError, match="empty list"):
        ms.Ragged.from_list([])
    with pytest.raises(ValueError, match=r"matrices\[1\] has shape \(3,\)"):
        ms.Ragged.from_list([np.ones((2, 2)), np.ones(3)])
    with pytest.raises(TypeError, match=r"matrices\[1\] float32"):
        ms.Ragged.from_list([np.ones((2, 2)), np.ones((2, 2), "float32")])


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    A, B, expected = operands(sizes_of(np.random.default_rng(1), 20, 9), "float64")
    a, b = (ms.Ragged.from_list([torch.from_numpy(x) for x in many]) for many in (A, B))
    result = ms.matmul(a, b)
    assert isinstance(result.buffer, torch.Tensor) and same(result, expected)
    with pytest.raises(TypeError, match="PyTorch arrays and B NumPy arrays"):
        ms.matmul(a, ms.Ragged.from_list(B))
    with pytest.raises(ValueError, match="lazily conjugated"):
        ms.Ragged(torch.ones(4, dtype=torch.complex64).conj(), [2], [2])
