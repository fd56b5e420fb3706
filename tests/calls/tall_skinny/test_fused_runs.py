"""Later calls of `matmul_gram` and `project`: the same answers and the same refusals as the first one's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard.operations import warm
from mansard.operations.tall_skinny import fused, fused_runs

pytestmark = pytest.mark.usefixtures("no_plans")
CALLS = {"matmul_gram": ms.matmul_gram, "project": ms.project}


def integers(*shape: int, order: str = "C", seed: int = 0) -> Any:
    values = np.random.default_rng(seed).integers(-3, 4, shape).astype(float)
    return np.asarray(values, order=order)  # type: ignore[call-overload]


def operands(name: str, order: str = "C") -> tuple[Any, Any, Any]:
    """Both operands of a call, and its first result."""
    V = integers(200, 5, order=order)
    if name == "matmul_gram":
        S = integers(5, 3, seed=1)
        return V, S, V @ S
    W = integers(200, 3, order=order, seed=1)
    return V, W, W - V @ (V.T @ W)


@pytest.mark.parametrize("where", [None, "emulated"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", CALLS)
def test_later_calls_agree(name: str, order: str, where: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    A, B, expected = operands(name, order)
    for call in range(3):
        if call == 1:  # nothing is checked again
            monkeypatch.setattr(fused, "checked", pytest.fail)
        found, G = CALLS[name](A, B, backend=where)
        assert (found == expected).all() and (expected.T @ expected == G).all()
        assert found is not B and (operands(name, order)[1] == B).all()


@pytest.mark.parametrize("where", [None, "emulated"])
@pytest.mark.parametrize("name", CALLS)
def test_results_in_place(name: str, where: str | None) -> None:
    out = np.empty((200, 3))
    for _ in range(3):
        A, B, expected = operands(name)
        found, G = CALLS[name](A, B, out=out, backend=where)
        assert found is out and (out == expected).all() and (expected.T @ expected == G).all()
    for _ in range(3):
        A, B, expected = operands(name)
        if name == "matmul_gram":
            A, B = integers(200, 5), integers(5, 5, seed=1)
            expected = A @ B
        inside = A if name == "matmul_gram" else B
        assert CALLS[name](A, B, out=inside, backend=where)[0] is inside and (inside == expected).all()


@pytest.mark.parametrize("name", CALLS)
def test_an_overlap_is_refused_after_a_call_without_one(name: str) -> None:
    A, B, _ = operands(name)
    memory = np.zeros((401, 5))
    out = memory[:200, :3]
    CALLS[name](A, B, out=out)
    CALLS[name](A, B, out=out)
    moved = memory[2:202]  # as A lies on a 16-byte boundary
    moved[...] = A
    with pytest.raises(ValueError, match="out overlaps V"):
        CALLS[name](moved, B, out=out)


def test_scaled_products_and_missing_results() -> None:
    V, S, expected = operands("matmul_gram")
    for _ in range(2):
        out = np.ones((200, 3))
        assert (ms.matmul_gram(V, S, out=out, alpha=2.0, beta=3.0)[0] == 2 * expected + 3).all()
        with pytest.raises(ValueError, match="beta scales"):
            ms.matmul_gram(V, S, beta=1.0)
        assert (ms.matmul_gram(V, S)[0] == expected).all()


@pytest.mark.parametrize("name", CALLS)
def test_a_call_under_a_pin_leaves_nothing(name: str) -> None:
    """Its run was chosen for the pinned parameters."""
    A, B, expected = operands(name)
    with ms.pin(VARIANT="vendor"):
        assert np.array_equal(CALLS[name](A, B)[0], expected)
    assert warm.recall(fused_runs.named(name, None, None, A), (A, B), None) is None
    assert np.array_equal(CALLS[name](A, B)[0], expected)
    assert warm.recall(fused_runs.named(name, None, None, A), (A, B), None) is not None
