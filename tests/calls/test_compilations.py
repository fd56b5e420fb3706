"""Nothing is compiled where a library answers: compilations are counted, for calls as users write them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu

import mansard as ms
from mansard import settings
from mansard.compile import cxx, nvrtc
from mansard.errors import CompileError
from mansard.operations.plans import PLANS

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


# ---- programs: kernels that they compile ----------------------------------------------------------------------------


def _kalman_filter() -> None:
    path = Path(__file__).resolve().parents[2] / "examples" / "kalman_filter.py"
    filtered = run_path(str(path))["filtered"]
    for targets in (1000, 1200):  # other numbers of targets are served by the same kernels
        found, P = filtered(_RANDOM.standard_normal((2, targets, 3)))
        assert np.isfinite(found).all() and np.allclose(P, P.swapaxes(-1, -2))


def _finite_elements() -> None:
    """Stiffness of trilinear elements by eight points each, and the nodes 4 to 7 condensed out."""
    gradients = _RANDOM.standard_normal((8, 1, 8, 3))
    for elements in (500, 700):
        nodes = np.eye(8, 3) + 0.1 * _RANDOM.standard_normal((elements, 8, 3))
        jacobians = ms.blas.gemm(gradients, nodes, trans_a="T")
        weights = np.abs(ms.linalg.det(jacobians))
        of_space = ms.matmul(gradients, ms.linalg.inv(jacobians))
        K = ms.blas.gemm(of_space, of_space, alpha=weights, trans_b="T").sum(0) + np.eye(8)
        condensed = K[:, :4, :4] - ms.matmul(K[:, :4, 4:], ms.linalg.solve(K[:, 4:, 4:], K[:, 4:, :4]))
        assert np.allclose(np.linalg.inv(condensed), np.linalg.inv(K)[:, :4, :4])


def _ragged_systems() -> None:
    for orders in (range(3, 41), range(5, 33)):
        systems = [np.eye(n) * n + _RANDOM.standard_normal((n, n)) for n in orders]
        found = ms.linalg.solve(systems, [np.ones((n, 1)) for n in orders])
        assert all(np.allclose(a @ x, 1) for a, x in zip(systems, found, strict=True))


@pytest.fixture
def as_users(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The rules for little work as users have them; other tests switch them off."""
    monkeypatch.delenv("MANSARD_LIBRARY_BELOW", raising=False)
    settings.reread()
    PLANS.forget()
    yield
    monkeypatch.undo()
    settings.reread()
    PLANS.forget()


@needs_cpu
@pytest.mark.parametrize(
    ("program", "most"),
    [(_kalman_filter, 2), (_finite_elements, 2), (_ragged_systems, 1)],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_programs_compile_few_kernels(
    program: Callable[[], None], most: int, as_users: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kernel for all products, one for systems, determinants and inverses, one for all systems of a ragged batch.
    A kernel for each shape, or order, would be 9, 7 and 38."""
    asked: set[str] = set()
    compiled = cxx._compile

    def counted(text: str, *args: Any, **kwargs: Any) -> Any:
        if "written by Mansard from kernels/" in text:  # neither the launcher nor headers that are compiled once
            asked.add(text)
        return compiled(text, *args, **kwargs)

    monkeypatch.setattr(cxx, "_compile", counted)
    program()
    assert 0 < len(asked) <= most, sorted(text.partition("\n")[0] for text in asked)


# ---- compilations at the same time ----------------------------------------------------------------------------------


def _refined() -> None:
    """Kernels that prepare, correct and judge, none of which needs another's result to be compiled."""
    with pytest.raises(CompileError, match="two at a time"):
        ms.linalg.solve(np.eye(37)[None] * 2, np.ones((1, 37, 1)), refine=True, backend="emulated")


def _precompiled() -> None:
    outcomes = ms.precompile([("matmul", np.ones((9, 19, 3)), np.ones((9, 3, 23))), ("cholesky", np.ones((9, 19, 19)))])
    assert [one.error.startswith("two at a time") for one in outcomes] == [True, True]


@needs_cpu
@pytest.mark.parametrize("call", [_refined, _precompiled])
def test_two_compilations_run_at_the_same_time(
    call: Callable[[], None], no_plans: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first compilation waits until another one has begun; nothing is compiled in the end."""
    begun: list[str] = []
    two, compiled = threading.Event(), cxx._compile

    def wait(text: str, *args: Any, **kwargs: Any) -> Any:
        if "written by Mansard from kernels/" not in text:
            return compiled(text, *args, **kwargs)
        begun.append(text)
        if len(begun) == 2:
            two.set()
        assert two.wait(30), "no other compilation begins meanwhile"
        raise CompileError("two at a time", "", text)

    monkeypatch.setenv("MANSARD_THREADS", "2")
    settings.reread()
    monkeypatch.setattr(cxx, "_compile", wait)
    try:
        call()
    finally:
        monkeypatch.undo()
        settings.reread()
        PLANS.forget()
