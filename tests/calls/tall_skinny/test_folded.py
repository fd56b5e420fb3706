"""Stacks times one matrix for all, folded to one tall product: exact, and only where rows follow each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu

from mansard.arrays.kinds import KINDS
from mansard.operations.tall_skinny.folded import folded, plan_folded

NUMPY = KINDS["numpy"]


def integers(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    rng = np.random.default_rng(len(shape))
    real = rng.integers(-3, 4, shape).astype(dtype)
    return real + 1j * rng.integers(-3, 4, shape).astype(dtype) if dtype.startswith("c") else real


def planned(A: Any, B: Any, out: Any = None) -> Any:
    return plan_folded(NUMPY, A, B, out, NUMPY.view(A, "A"), NUMPY.view(B, "B"))


WIDE = integers((50, 6, 9))
STACKS = {
    "packed": (integers((50, 6, 5)), (300, 5, 5)),
    "padded rows": (WIDE[..., 2:7], (300, 5, 9)),
    "two dimensions": (integers((5, 10, 6, 5)), (300, 5, 5)),
    "dimensions of length one": (integers((1, 50, 1, 6, 5))[:, :, ::-1], (300, 5, 5)),
    "single rows": (integers((300, 1, 5)), (300, 5, 5)),
    "every other matrix": (integers((100, 6, 5))[::2], None),
    "some rows": (integers((50, 8, 5))[:, :6], None),
    "columns": (integers((50, 5, 6)).swapaxes(1, 2), None),
    "backwards": (integers((50, 6, 5))[::-1], None),
}


@pytest.mark.parametrize("name", STACKS)
def test_rows_that_follow_each_other(name: str) -> None:
    A, found = STACKS[name]
    view = folded(NUMPY.view(A, "A"))
    assert (None if view is None else (*view.shape, view.strides[0])) == found


@needs_cpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", [name for name, (_, found) in STACKS.items() if found])
def test_products(name: str, dtype: str) -> None:
    A = STACKS[name][0].astype(dtype)
    B, out = integers((5, 4), dtype), np.full((*A.shape[:-1], 7), np.nan, dtype)
    plan = planned(A, B)
    if plan is None:
        pytest.skip("no kernel for CPUs can be had")
    assert plan.problem.K == 300 and np.array_equal(plan.run(A, B, None, 1.0, 0.0), A @ B)
    part = out[..., 1:5]
    plan = planned(A, B, part)
    assert plan.run(A, B, part, 1.0, 0.0) is part and np.array_equal(part, A @ B)
    assert np.isnan(out[..., 0]).all() and np.isnan(out[..., 5:]).all()
    assert np.array_equal(plan.run(A, B, part, 2.0, -1.0), 2 * (A @ B) - A @ B)


def test_what_is_not_folded() -> None:
    A, B = integers((50, 6, 5)), integers((5, 5))
    assert planned(A, integers((50, 5, 5))) is None, "every product has a B of its own"
    assert planned(A, B, A) is None, "in place"
    assert planned(A, B, np.zeros((50, 5, 6)).swapaxes(1, 2)) is None, "rows of the result lie apart"
    assert planned(A, B, np.zeros((50, 6, 4))) is None and planned(A, integers((4, 5))) is None, "shapes differ"
    assert planned(A[:2], B) is None, "12 rows are not tall"
    assert planned(integers((50, 6, 130)), integers((130, 4))) is None, "130 columns are not skinny"
