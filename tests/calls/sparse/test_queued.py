"""cg and minres by fused passes: SciPy's answers on CPUs and on the emulator, and iterations that are queued ahead."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import usable
from scipy import sparse
from scipy.sparse import linalg as scipy_linalg

import mansard as ms
from mansard import testing
from mansard.operations.plans import PLANS
from mansard.operations.sparse import krylov
from mansard.plan.problem import DTYPES
from mansard.sparse import matrices
from mansard.sparse.linalg import Report, cg, minres, operator
from mansard.sparse.linalg.queued import weights_of

SIDE = 6
ROWS = SIDE**3


def random(*shape: int, dtype: Any = np.float64, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def positive(dtype: Any = np.float64) -> Any:
    """A Hermitian positive definite matrix whose diagonal varies."""
    scale = sparse.diags_array(1.0 + np.arange(ROWS) % 5)
    return (scale @ matrices.stencil(7, (SIDE,) * 3) @ scale).astype(dtype).tocsr()


def indefinite(dtype: Any = np.float64) -> Any:
    return (matrices.anderson((SIDE,) * 3, disorder=4.0, seed=3) + 0.5 * sparse.eye_array(ROWS)).astype(dtype).tocsr()


@pytest.fixture(params=["cpu", "emulated", "cuda"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A backend whose kernels make the passes of vectors of any length."""
    monkeypatch.setattr(operator, "LARGE", 1)
    return usable(request.param)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Iterations are queued ahead on the emulator, too."""
    monkeypatch.setattr(operator, "LARGE", 1)
    usable("emulated")
    plain = krylov.Passes.__init__

    def queueing(self: krylov.Passes, *arguments: Any) -> None:
        plain(self, *arguments)
        self.is_queued = True

    monkeypatch.setattr(krylov.Passes, "__init__", queueing)
    PLANS.forget()
    yield
    PLANS.forget()


class Recorded:
    """A graph whose launches are those of the emulator."""

    current: list[Any] | None = None  # launches of the capture under way
    made = 0

    def __init__(self, backend: Any, launch: Any) -> None:
        Recorded.current = self.calls = []
        launch(77)
        Recorded.current = None
        Recorded.made += 1

    def __call__(self, stream: int) -> None:
        for launch, arguments in self.calls:
            launch(*arguments)

    def destroy(self) -> None: ...

    @staticmethod
    def held_back(launch: Any) -> Any:
        """The launch, which a capture records instead of running it."""

        def call(*arguments: Any) -> None:
            if Recorded.current is None:
                launch(*arguments)
            else:
                Recorded.current.append((launch, arguments))

        return call


@pytest.fixture
def captured(ahead: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterations are captured as graphs, which the emulator runs."""
    queueing, launcher = krylov.Passes.__init__, krylov._launcher

    def capturing(self: krylov.Passes, backend: Any, launches: Any) -> None:
        queueing(self, backend, {phase: Recorded.held_back(launch) for phase, launch in launches.items()})
        self.is_captured = True

    monkeypatch.setattr(krylov.Passes, "__init__", capturing)
    monkeypatch.setattr(krylov, "_launcher", lambda *given: Recorded.held_back(launcher(*given)))
    monkeypatch.setattr(krylov, "Captured", Recorded)
    monkeypatch.setattr(Recorded, "made", 0)


def on(where: str, A: Any, b: Any) -> tuple[Any, Any]:
    """A stored for a backend, and b where it lives."""
    if where != "cuda":
        return ms.sparse.matrix(A, backend=where), b
    xp = testing.array_module(where)
    from cupyx.scipy.sparse import csr_matrix

    return ms.sparse.matrix(csr_matrix(A)), xp.asarray(b)


def back(x: Any) -> Any:
    return x.get() if hasattr(x, "get") else x


def waiting(solve: Any, *arguments: Any, **options: Any) -> tuple[Any, int, Report]:
    """The same with a callback, for which every iteration is waited for."""
    return solve(*arguments, callback=lambda x: None, report=True, **options)  # type: ignore[no-any-return]


# --- cg ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "Jacobi"])
def test_cg_as_scipy(where: str, dtype: str, weighted: bool) -> None:
    A, b, seen = positive(dtype), random(ROWS, dtype=dtype), []
    M = sparse.csr_array(sparse.diags_array(1 / A.diagonal())) if weighted else None
    rtol = 1e-5 if np.finfo(dtype).eps > 1e-10 else 1e-10
    expected, _ = scipy_linalg.cg(A, b, rtol=rtol, M=M, callback=lambda x: seen.append(1))
    stored, right = on(where, A, b)
    if M is not None and where == "cuda":
        from cupyx.scipy.sparse import csr_matrix

        M = csr_matrix(M)
    x, info, run = cg(stored, right, rtol=rtol, M=M, report=True)
    x = back(x)
    assert info == 0 and x.dtype == dtype and abs(run.iterations - len(seen)) <= 1
    assert np.linalg.norm(x - expected) <= 20 * rtol * np.linalg.norm(x)
    assert run.products == run.passes == run.iterations == len(run.residuals) - 1
    assert run.residuals[0] == pytest.approx(np.linalg.norm(b), rel=1e-5)
    assert run.residuals[-1] == pytest.approx(np.linalg.norm(b - A @ x), rel=0.02)
    again = back(cg(stored, right, rtol=rtol, M=M)[0])
    assert np.array_equal(x, again), "the same bits from run to run"


def test_x_is_right_whenever_the_callback_has_it(where: str) -> None:
    A, b = positive(), random(ROWS)
    stored, right = on(where, A, b)
    norms: list[float] = []
    _, info, run = cg(stored, right, rtol=1e-8, report=True,
                      callback=lambda x: norms.append(float(np.linalg.norm(b - A @ back(x)))))  # fmt: skip
    assert info == 0 and len(norms) == run.iterations and norms == pytest.approx(run.residuals[1:], rel=1e-4)


def test_starting_vectors_limits_and_trivial_systems(where: str) -> None:
    A, b = positive(), random(ROWS)
    stored, right = on(where, A, b)
    near = scipy_linalg.spsolve(A.tocsc(), b) + 1e-9 * random(ROWS, seed=1)
    x, info, run = cg(stored, right, on(where, A, near)[1], rtol=1e-6, report=True)
    assert info == 0 and run.iterations < 20 and run.products == run.iterations + 1
    x, info, run = cg(stored, right, maxiter=3, report=True)
    assert info == 3 == run.iterations and len(run.residuals) == 4
    x, info, run = cg(stored, right, maxiter=0, report=True)
    assert info == 1 and not back(x).any() and len(run.residuals) == 1
    x, info = cg(stored, right * 0, on(where, A, near)[1])
    assert info == 0 and not back(x).any()
    x, info, run = cg(stored, right, atol=1e9, report=True)
    assert info == 0 and run.iterations == 0
    spoilt = random(ROWS)
    spoilt[7] = np.nan
    assert cg(stored, on(where, A, spoilt)[1])[1] > 0


def test_indefinite_matrices_are_told(where: str) -> None:
    A, b = indefinite(), random(ROWS)
    stored, right = on(where, A, b)
    _, info, run = cg(stored, right, rtol=1e-10, report=True)
    assert info > 0 and "p^H A p = -" in run.notes[0] and "not positive definite" in run.notes[0]
    assert run.products == run.iterations + 1 == len(run.residuals)


@pytest.mark.usefixtures("ahead")
@pytest.mark.parametrize("A", [positive(), indefinite()], ids=["definite", "indefinite"])
@pytest.mark.parametrize("maxiter", [0, 1, 3, 4, 5, 17, 400])
def test_what_is_queued_ahead_changes_nothing(A: Any, maxiter: int) -> None:
    stored, b = ms.sparse.matrix(A, backend="emulated"), random(ROWS)
    x, info, run = cg(stored, b, rtol=1e-8, maxiter=maxiter, report=True)
    expected, other, plain = waiting(cg, stored, b, rtol=1e-8, maxiter=maxiter)
    assert np.array_equal(x, expected) and (info, run) == (other, plain)


@pytest.mark.usefixtures("ahead")
def test_iterations_beyond_the_last_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    stored, b, launched = ms.sparse.matrix(positive(), backend="emulated"), random(ROWS), []
    iterate = krylov.CgQueue.iterate
    monkeypatch.setattr(krylov.CgQueue, "iterate", lambda self, stream: launched.append(1) or iterate(self, stream))
    _, _, run = cg(stored, b, rtol=1e-6, report=True)
    assert 0 < len(launched) - run.iterations <= krylov.AHEAD


def test_operators_of_cpus_of_any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "LARGE", 1)
    usable("cpu")
    A, b = positive(), random(ROWS)
    expected = cg(ms.sparse.matrix(A), b, rtol=1e-8)[0]
    calls: list[int] = []
    counting = scipy_linalg.LinearOperator(A.shape, lambda x: calls.append(1) or A @ x, dtype=A.dtype)
    for other in (A, A.toarray(), counting, A.astype(np.float32)):
        x, info = cg(other, b, rtol=1e-8)
        assert info == 0 and np.allclose(x, expected, rtol=1e-6)
    assert len(calls) == cg(counting, b, rtol=1e-8, report=True)[2].products


# --- Preconditioners -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_diagonals_are_recognised(dtype: str) -> None:
    d, b = np.arange(1.0, 6.0), np.zeros(5, dtype)
    expected = np.repeat(d, 2) if dtype == "complex128" else d
    diagonal = sparse.diags_array(d)
    for M in (diagonal, diagonal.tocsr(), diagonal.tocoo(), sparse.csr_matrix(diagonal), ms.sparse.matrix(diagonal)):
        found = weights_of(M, b)
        assert found.dtype == b.real.dtype and np.array_equal(found, expected)
    assert np.array_equal(weights_of(diagonal.astype(complex), b), expected)


def test_what_is_no_diagonal() -> None:
    d, b = np.arange(1.0, 6.0), np.zeros(5)
    shifted, turned = sparse.diags_array(d[:4], offsets=1).tocsr(), sparse.diags_array(1j * d)
    others = (None, np.diag(d), scipy_linalg.aslinearoperator(np.diag(d)), lambda r: d * r, shifted, turned,
              sparse.diags_array(np.ones(4)), matrices.stencil(5, (5, 1)))  # fmt: skip
    for M in others:
        assert weights_of(M, b) is None
    assert weights_of(sparse.diags_array(d), np.zeros((5, 2))) is None


# --- minres --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_minres_solves(where: str, dtype: str, shift: float) -> None:
    A, b = indefinite(dtype), random(ROWS, dtype=dtype)
    rtol = 1e-4 if np.finfo(dtype).eps > 1e-10 else 1e-9
    stored, right = on(where, A, b)
    x, info, run = minres(stored, right, rtol=rtol, shift=shift, report=True)
    x = back(x)
    shifted = A - shift * sparse.eye_array(ROWS)
    assert info == 0 and x.dtype == dtype and np.linalg.norm(b - shifted @ x) <= 1.01 * rtol * np.linalg.norm(b)
    assert np.array_equal(x, back(minres(stored, right, rtol=rtol, shift=shift)[0]))
    assert run.residuals[:-1] == sorted(run.residuals[:-1], reverse=True) and run.products >= run.iterations


def test_minres_as_without_passes(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A, b = indefinite(), random(ROWS)
    stored, right = on(where, A, b)
    singular, far = on(where, sparse.csr_array(sparse.diags_array(np.arange(float(ROWS)) % 9)), np.ones(ROWS))
    systems = [(stored, right, {}), (stored, right, {"maxiter": 7}), (singular, far, {}), (stored, right * 0, {}),
               (stored, right, {"x0": right})]  # fmt: skip
    found = [minres(A, b, report=True, **options) for A, b, options in systems]
    module = sys.modules["mansard.sparse.linalg.minres"]  # the package's attribute is the function
    monkeypatch.setattr(module, "passes_for", lambda *given: None)
    for (x, info, run), (A, b, options) in zip(found, systems, strict=True):
        expected, other, plain = minres(A, b, report=True, **options)
        assert (info > 0, run.notes) == (other > 0, plain.notes)
        assert abs(run.iterations - plain.iterations) <= 4 and run.products - run.iterations < 3
        assert np.allclose(back(x), back(expected), atol=1e-7 * (1 + abs(back(expected)).max()))
        assert run.residuals[:50] == pytest.approx(plain.residuals[:50], rel=1e-6)


@pytest.mark.usefixtures("ahead")
@pytest.mark.parametrize("maxiter", [1, 5, 6, 13, 900])
def test_minres_queued_ahead(maxiter: int) -> None:
    stored, b = ms.sparse.matrix(indefinite(), backend="emulated"), random(ROWS)
    x, info, run = minres(stored, b, rtol=1e-8, maxiter=maxiter, report=True)
    expected, other, plain = waiting(minres, stored, b, rtol=1e-8, maxiter=maxiter)
    assert np.array_equal(x, expected) and (info, run) == (other, plain)


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize("solve, A, most", [(cg, positive(), krylov.AHEAD + 1), (minres, indefinite(), 6)])
def test_graphs_repeat_iterations(solve: Any, A: Any, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, b = ms.sparse.matrix(A, backend="emulated"), random(ROWS)
    x, info, run = solve(stored, b, rtol=1e-8, report=True)
    assert info == 0 and run.iterations > krylov.EAGER * most + most and Recorded.made == most
    monkeypatch.setattr(krylov, "EAGER", 1 << 20)
    expected, other, plain = solve(stored, b, rtol=1e-8, report=True)
    assert np.array_equal(x, expected) and (info, run) == (other, plain) and Recorded.made == most
