"""Later products of ragged batches on CPUs: the bits of the first one, and the same refusals."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu

import mansard as ms
from mansard.operations.batched import ragged_call, ragged_warm
from mansard.operations.plans import PLANS

pytestmark = needs_cpu
SIZES = [(3, 4, 2), (5, 1, 6), (2, 7, 3), (9, 9, 9)]


def batches(dtype: str = "float64", seed: int = 1) -> tuple[list[Any], list[Any], ms.Ragged, ms.Ragged]:
    rng = np.random.default_rng(seed)
    A, B = ([rng.integers(-3, 4, (size[i], size[i + 1])).astype(dtype) for size in SIZES] for i in (0, 1))
    return A, B, ms.Ragged.from_list(A), ms.Ragged.from_list(B)


def is_warm(A: ms.Ragged, B: ms.Ragged, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a product takes the short path."""
    looked: list[Any] = []
    real = ragged_call.side_of
    with monkeypatch.context() as patch:
        patch.setattr(ragged_call, "side_of", lambda *given: looked.append(given) or real(*given))
        ms.matmul(A, B, backend="cpu")
    return not looked


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_later_products(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A, B, a, b = batches(dtype)
    results = [ms.matmul(a, b, backend="cpu") for _ in range(3)]
    assert is_warm(a, b, monkeypatch)
    for result in results:
        for found, one, other in zip(result, A, B, strict=True):
            assert found.dtype == dtype and np.array_equal(found, one @ other)
    assert len({result.buffer.ctypes.data for result in results}) == 3, "every result has memory of its own"
    a.buffer[...] = 0
    assert not any(one.any() for one in ms.matmul(a, b, backend="cpu")), "entries are read in every call"


def test_other_buffers_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    A, B, a, b = batches()
    ms.matmul(a, b, backend="cpu")
    a.buffer = np.concatenate([a.buffer, np.ones(8)])
    assert not is_warm(a, b, monkeypatch)
    assert np.array_equal(ms.matmul(a, b, backend="cpu")[0], A[0] @ B[0])
    a.buffer = a.buffer[:10]
    with pytest.raises(ValueError, match=r"matrix \d ends at element"):
        ms.matmul(a, b, backend="cpu")
    _, _, a, b = batches()
    ms.matmul(a, b, backend="cpu")
    single = ms.Ragged._of(b._kind, np.zeros(len(b.buffer), np.float32), b.layout)
    assert not is_warm(a, single, monkeypatch), "another dtype in the same layout"


def test_pins_and_forgotten_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, a, b = batches()
    ms.matmul(a, b, backend="cpu")
    assert is_warm(a, b, monkeypatch)
    with ms.pin(VARIANT="vendor"):
        assert ragged_warm.recall(a, b, None, (1.0, 0.0), next(iter(a.layout.pairs[b.layout].warm))) is None
    PLANS.forget()
    assert not is_warm(a, b, monkeypatch) and is_warm(a, b, monkeypatch)


def test_layouts_are_not_held() -> None:
    _, _, a, b = batches()
    ms.matmul(a, b, backend="cpu")
    left, right = weakref.ref(a.layout), weakref.ref(b.layout)
    del b
    gc.collect()
    assert right() is None and not a.layout.pairs
    del a
    gc.collect()
    assert left() is None
