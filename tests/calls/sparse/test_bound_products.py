"""Later products of sparse matrices by the native launcher: the bits of Python's path, for vectors like the first."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import needs_cpu

import mansard as ms
from mansard import native
from mansard.operations.launcher import LAUNCHER
from mansard.operations.plans import PLANS
from mansard.operations.sparse import spmv_call

NATIVE = LAUNCHER.wait()
pytestmark = [needs_cpu, pytest.mark.skipif(not NATIVE, reason=f"calls are launched by {native.state()}")]


def pattern(rows: int = 40, columns: int = 30, dtype: str = "float64") -> Any:
    A = sp.random_array((rows, columns), density=0.2, format="csr", random_state=np.random.default_rng(3))
    A.data = np.arange(1.0, A.nnz + 1) % 7 - 3
    return A.astype(dtype)


def by_python(M: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether M @ x enters Python's path."""
    entered: list[Any] = []
    real = spmv_call.apply
    with monkeypatch.context() as patch:
        patch.setattr(spmv_call, "apply", lambda *given, **named: entered.append(given) or real(*given, **named))
        M @ x
    return bool(entered)


@pytest.mark.parametrize("format", ["csr", "sell", "ell"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_products(format: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A, rng = pattern(dtype=dtype), np.random.default_rng(4)
    M = ms.sparse.matrix(A, format=format, backend="cpu")
    for shape in ((30,), (30, 3)):
        vectors = [rng.integers(-3, 4, shape).astype(dtype) for _ in range(6)]
        for x in vectors:
            assert np.array_equal(M @ x, A @ x)
        if format != "ell" or shape == (30,):
            M @ vectors[0], M @ vectors[0]
    x = vectors[0][:, 0].copy()
    while by_python(M, x, monkeypatch):
        assert M._calls < 1 << 8, "a native path is found"
    first, second = M @ x, M @ x
    assert np.array_equal(first, A @ x) and not np.shares_memory(first, second)
    for turned, wanted in ((M.T, A.T), (M.H, A.conj().T)):
        y = rng.integers(-3, 4, 40).astype(dtype)
        for _ in range(5):
            assert np.array_equal(turned @ y, wanted @ y)


def warm(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, np.ndarray]:
    A = pattern()
    M, x = ms.sparse.matrix(A, backend="cpu"), np.arange(30.0)
    for _ in range(4):
        M @ x
    assert not by_python(M, x, monkeypatch)
    return A, M, x


def test_other_vectors_are_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    A, M, x = warm(monkeypatch)
    others = [np.arange(60.0)[::2], np.arange(30.0, dtype="float32"), np.arange(30), np.arange(60.0).reshape(30, 2)]
    for other in (*others, [1.0] * 30):
        assert by_python(M, other, monkeypatch)
        assert np.array_equal(M @ np.asarray(other), A @ np.asarray(other))
    M, x = warm(monkeypatch)[1:]
    M._calls = 7
    M @ others[2]  # integers, which are converted first, have no native path
    assert not by_python(M, x, monkeypatch)
    with pytest.raises(ValueError, match="x has"):
        M @ np.arange(29.0)


def test_pins_and_forgotten_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    A, M, x = warm(monkeypatch)
    with ms.pin(VARIANT="vendor"):
        assert by_python(M, x, monkeypatch)
    assert not by_python(M, x, monkeypatch)
    PLANS.forget()
    assert by_python(M, x, monkeypatch) and np.array_equal(M @ x, A @ x)


def test_a_native_path_keeps_no_matrix_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    _, M, _ = warm(monkeypatch)
    held = weakref.ref(M.held)
    del M
    gc.collect()
    assert held() is None


def test_what_is_no_path_is_refused() -> None:
    assert LAUNCHER.module is not None
    for given in ((object(), np.ones(3)), (None, None)):
        with pytest.raises(TypeError):
            LAUNCHER.module.again(*given)
