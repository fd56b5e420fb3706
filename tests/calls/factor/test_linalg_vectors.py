"""Systems with one vector: calls after the first go straight to the kernel, and answer the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard import testing
from mansard.linalg import systems
from mansard.operations.plans import PLANS


def system(xp: Any, dtype: str, seed: int) -> tuple[Any, Any, Any]:
    """A, b and x, of integers: below a diagonal of ones no entry is larger, and nothing is rounded."""
    rng = np.random.default_rng(seed)
    A = np.tril(rng.integers(-1, 2, (6, 6)), -1) + np.eye(6)
    x = rng.integers(-3, 4, 6)
    return xp.asarray(A, dtype=dtype), xp.asarray(A @ x, dtype=dtype), xp.asarray(x, dtype=dtype)


def _quick_plans() -> int:
    return sum(key[0] == "quick" for key in PLANS._runs)  # type: ignore[index]


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("place", ["fresh", "own", "b"])
def test_later_calls_answer_as_the_first(dtype: str, place: str, backend: str) -> None:
    xp = testing.array_module(backend)
    before = _quick_plans()
    for seed in range(3):
        A, b, x = system(xp, dtype, seed)
        out = {"fresh": None, "own": xp.full(6, 9, dtype), "b": b}[place]
        found, info = systems.solve_ex(A, b, out=out, backend=backend)
        assert found.shape == (6,) and bool((found == x).all()) and int(info) == 0
        assert out is None or found is out
    assert place == "b" or _quick_plans() > before  # what overlaps is looked at every time
    A[3] = 0
    assert int(systems.solve_ex(A, b, backend=backend)[1]) > 0
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        ms.linalg.solve(A, b, backend=backend)


def test_strides_and_stacks_are_told_apart(backend: str) -> None:
    xp = testing.array_module(backend)
    A, b, x = system(xp, "float64", 1)
    spread = xp.zeros(12)
    spread[::2] = b
    for _ in range(2):
        assert bool((ms.linalg.solve(A, b, backend=backend) == x).all())
        assert bool((ms.linalg.solve(A, spread[::2], backend=backend) == x).all())
        many = ms.linalg.solve(xp.stack([A, A]), b, backend=backend)
        assert many.shape == (2, 6) and bool((many == x).all())
        assert ms.linalg.solve(A, b[:, None], backend=backend).shape == (6, 1)
