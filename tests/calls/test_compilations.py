"""Nothing is compiled where a library answers: compilations are counted, for calls as users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu

import mansard as ms
from mansard.compile import cxx, nvrtc

_RANDOM = np.random.default_rng(3)
LARGE = _RANDOM.standard_normal((1, 520, 520)) + 30 * np.eye(520)
TALL = np.ascontiguousarray(LARGE[..., :20])
POSITIVE = np.eye(1030)[None] * 2
WIDE, RIGHT = np.ones((3, 200, 200)), np.ones((1, 520, 2))
TRIANGLE = np.tril(np.ones((2, 260, 260))) + 260 * np.eye(260)
CALLS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {  # ours, and NumPy's
    "matmul": (lambda: ms.matmul(LARGE[0], LARGE[0]), lambda: LARGE[0] @ LARGE[0]),
    "gemm": (lambda: ms.blas.gemm(WIDE, WIDE), lambda: WIDE @ WIDE),
    "gemv": (lambda: ms.blas.gemv(np.ones((1, 3, 9000)), np.ones(9000)), lambda: np.full((1, 3), 9000)),
    "trsm": (lambda: TRIANGLE @ ms.blas.trsm(TRIANGLE, TRIANGLE), lambda: TRIANGLE),
    "cholesky": (lambda: ms.linalg.cholesky(POSITIVE), lambda: np.sqrt(POSITIVE)),
    "lu": (lambda: abs(np.prod(np.sign(np.diagonal(ms.linalg.lu_factor(LARGE)[0][0])))), lambda: 1.0),
    "qr": (lambda: np.matmul(*ms.linalg.qr(TALL)), lambda: TALL),
    "solve": (lambda: ms.linalg.solve(LARGE, RIGHT), lambda: np.linalg.solve(LARGE, RIGHT)),
    "inv": (lambda: ms.linalg.inv(LARGE), lambda: np.linalg.inv(LARGE)),
}


@needs_cpu
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_compiled_where_the_library_answers(
    name: str, no_plans: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(cxx, "_compile", lambda *_, **__: compiled.append("cxx"))
    monkeypatch.setattr(nvrtc, "compile_cuda", lambda *_, **__: compiled.append("nvrtc"))
    ours, theirs = CALLS[name]
    assert np.allclose(ours(), theirs()) and not compiled


@needs_cpu
def test_compilations_are_seen(no_plans: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter counts: a kernel's call reaches it."""

    def compiled(*_: Any, **__: Any) -> None:
        raise AssertionError("a kernel is compiled")

    monkeypatch.setattr(cxx, "_compile", compiled)
    with pytest.raises(AssertionError, match="a kernel is compiled"):
        ms.gram(np.ones((3000, 3)))
