"""Fused passes and `cholesky_qr`: exact products, orthonormality by condition, passes over memory, the device alone."""

from __future__ import annotations

import doctest
from typing import Any

import devices
import numpy as np
import pytest
from orthogonal_cases import SMALL, check, conditioned, where
from sparing import rotated

import mansard as ms
from mansard import testing
from mansard.errors import UnsupportedProblem
from mansard.operations.plans import PLANS
from mansard.operations.tall_skinny import device_steps, fused, orthogonal, orthogonal_steps, small_factors
from mansard.operations.tall_skinny.small_factors import unit_roundoff
from mansard.plan import tall_skinny_rules
from mansard.plan.problem import DTYPES


def test_doctests() -> None:
    for module, least in ((fused, 6), (orthogonal, 8)):
        failures, tried = doctest.testmod(module)
        assert tried >= least and failures == 0


# fused passes


@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul_gram_is_exact(dtype: str, backend: str) -> None:
    xp = testing.array_module(backend)
    V, S, W = (
        testing.random_matrix(xp, *shape, dtype, seed, integers=True)
        for seed, shape in enumerate(((200, 5), (5, 5), (200, 5)))
    )
    expected = 2 * (V @ S) - 3 * W
    got, G = ms.matmul_gram(V, S, out=W, alpha=2.0, beta=-3.0, **where(backend))
    assert got is W and bool((expected == W).all()) and bool((expected.conj().T @ expected == G).all())
    expected = V @ S
    got, G = ms.matmul_gram(V, S, out=V, **where(backend))
    assert got is V and bool((expected == V).all()) and bool((expected.conj().T @ expected == G).all())


@rotated(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_project_is_exact_beside_unit_vectors(dtype: str, backend: str) -> None:
    xp = testing.array_module(backend)
    V, W = xp.eye(200, 3, dtype=dtype), testing.random_matrix(xp, 200, 5, dtype, 1, integers=True)
    expected = W.copy()
    expected[:3] = 0
    old = W.copy()
    rest, G = ms.project(V, W, **where(backend))
    assert bool((rest == expected).all()) and bool((old == W).all())
    assert bool((expected.conj().T @ expected == G).all())
    rest, _ = ms.project(V, W, out=W, **where(backend))
    assert rest is W and bool((expected == W).all())


@rotated(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_project_reads_what_it_is_given(dtype: str, backend: str) -> None:
    """W is not copied first, whatever its layout, and not written to."""
    xp = testing.array_module(backend)
    V, wide = xp.eye(200, 3, dtype=dtype), testing.random_matrix(xp, 200, 12, dtype, 1, integers=True)
    for W in (wide[:, :5], wide[:, 7:], wide[:, ::3], xp.asfortranarray(wide)):
        old = wide.copy()
        expected = W.copy()
        expected[:3] = 0
        out = xp.full(W.shape, np.nan, dtype)
        rest, G = ms.project(V, W, out=out, **where(backend))
        assert rest is out and bool((rest == expected).all()) and bool((old == wide).all())
        assert bool((expected.conj().T @ expected == G).all())


def test_bad_input_to_fused_passes_is_named() -> None:
    V = np.ones((100, 4))
    for call, message in (
        (lambda: ms.matmul_gram(V, np.ones((3, 3))), "V has 4 columns and S 3 rows"),
        (lambda: ms.matmul_gram(V, np.eye(4), beta=1.0), "beta scales"),
        (lambda: ms.matmul_gram(V, np.ones((4, 3)), out=np.ones((100, 4))), "out has shape"),
        (lambda: ms.matmul_gram(V[1:], np.eye(4), out=V[:-1]), "out overlaps V"),
        (lambda: ms.project(V, V, out=V[:, ::-1]), "out overlaps"),
        (lambda: ms.project(V, np.ones((99, 2))), "V has 100 rows and W 99"),
        (lambda: ms.project(V[0], V), "V has shape"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises((TypeError, UnsupportedProblem), match=r"W.* float16"):
        ms.project(V, np.ones((100, 2), "float16"))
    with pytest.raises(UnsupportedProblem, match="V has dtype int"):
        ms.project(V.astype(int), V.astype(int))


# cholesky_qr


@rotated(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky_qr_by_dtype(dtype: str, backend: str) -> None:
    for kappa in (1.0, 1e2, 1e4, 1e6) if unit_roundoff(dtype) > 1e-10 else (1.0, 1e3, 1e7, 1e12, 1e15):
        V = testing.array_module(backend).asarray(conditioned(*SMALL, kappa, dtype))
        old = V.copy()
        Q, R = ms.cholesky_qr(V, **where(backend))
        assert Q.dtype == R.dtype == V.dtype and type(Q) is type(R) is type(V) and bool((old == V).all())
        check(V, Q, R)


@rotated(2)
@pytest.mark.parametrize("spectrum", ["even", "one", "half", "pair"])
@pytest.mark.parametrize("n", [2, 32])
def test_cholesky_qr_by_condition(n: int, spectrum: str) -> None:
    for kappa in (1e1, 1e5, 1e7, 3e7, 1e8, 1e10, 1e12, 1e14):
        V = conditioned(1500, n, kappa, spectrum=spectrum)
        check(V, *ms.cholesky_qr(V))
    if spectrum != "pair":  # whose two columns are a few roundoffs apart in single precision
        V = conditioned(1500, n, 1e6, "float32", spectrum)
        check(V, *ms.cholesky_qr(V))


@rotated(2)
def test_the_widest() -> None:
    for kappa in (10.0, 1e7, 1e13):
        V = conditioned(2500, 128, kappa)
        check(V, *ms.cholesky_qr(V))


def test_nearly_equal_columns_cost_no_accuracy() -> None:
    """The explicit inverse of the Cholesky factor would leave a residual of 1e5 u here."""
    V = conditioned(3000, 32, 1e7, spectrum="pair")
    check(V, *ms.cholesky_qr(V), residual=50)
    R = np.linalg.cholesky(ms.gram(V)).T
    assert np.linalg.norm(V - V @ np.linalg.inv(R) @ R) > 1e4 * 2.0**-53 * np.linalg.norm(V)


@rotated(2)
@pytest.mark.parametrize("spectrum", ["even", "one", "half", "pair"])
def test_passes_over_memory(spectrum: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kernel that multiplies and forms the Gram matrix at once, a step is three passes."""
    passes = 0

    def spy(name: str, cost: int, owner: Any = orthogonal_steps) -> None:
        function = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal passes
            passes += cost
            return function(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    spy("sketch", 1, orthogonal_steps.Passes)
    for owner in (orthogonal_steps, fused):
        spy("gram", 1, owner)
        spy("matmul", 2, owner)  # reads, and writes
    for kappa, most in ((1.0, 3 if spectrum != "pair" else 6), (1e3, 6), (1e7, 6), (1e9, 7), (1e12, 7), (1e14, 7)):
        passes = 0
        ms.cholesky_qr(conditioned(5000, 32, kappa, spectrum=spectrum), backend="cpu")
        assert passes == most if kappa < 1e8 else passes <= most


@rotated(2)
@pytest.mark.parametrize("n", [1, 2, 33, 64])
def test_sketched_blocks(n: int) -> None:
    """Any condition to 1 / (10 u), graded blocks and tiny columns: one step from a sketch, and the last; the same bits
    twice."""
    for kappa in (1e8, 1e12, 1e15) if n > 1 else (1.0,):
        V = conditioned(1100, n, kappa) * np.logspace(0, -100, n)
        Q, R = ms.cholesky_qr(V, backend="cpu")
        check(V, Q, R, residual=50)
        again = ms.cholesky_qr(V, backend="cpu")
        assert (again[0] == Q).all() and (again[1] == R).all()


@rotated(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dependent_columns_of_sketched_blocks(dtype: str) -> None:
    """The sketch shows columns that may be dependent; shifted steps then settle it."""
    rest = testing.random_matrix(np, 600, 9, dtype, 3)
    for column in (1, 4, 8):
        V = rest.copy()
        V[:, column] = V[:, :column].sum(axis=1) * 0.3
        Q, R, dependent = ms.cholesky_qr(V, on_deficient="flag", backend="cpu")
        assert dependent.tolist() == [j == column for j in range(9)]
        check(V, Q, R, dependent)


def test_a_sketch_that_fails_costs_steps_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not accuracy: of a sketch of other rows, or of a few, the Gram matrix of the next block shows what it was."""
    V = conditioned(1100, 16, 1e12)
    for rows in (V[:20], np.random.default_rng(0).standard_normal((40, 16)), V * np.nan, np.zeros((40, 16))):
        monkeypatch.setattr(orthogonal_steps.Passes, "sketch", lambda passes, block, rows=rows: rows)
        check(V, *ms.cholesky_qr(V, backend="cpu"))


# steps planned on the device


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Passes over memory that the device's own steps take; nothing of the host's way may be called."""
    counted = []

    def count(cost: int, function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            counted.append(cost)
            return function(*arguments, **options)

        return call

    plan, sketches = device_steps.plan_matmul_gram, device_steps.plan_sketch
    monkeypatch.setattr(device_steps, "gram", count(1, device_steps.gram))
    monkeypatch.setattr(device_steps, "matmul", count(2, device_steps.matmul))
    monkeypatch.setattr(device_steps, "plan_matmul_gram", lambda *arrays: (run := plan(*arrays)) and count(2, run))
    monkeypatch.setattr(device_steps, "plan_sketch", lambda *arrays: (run := sketches(*arrays)) and count(1, run))
    for name in ("gram", "matmul", "multiplied", "plan_sketch"):
        monkeypatch.setattr(orthogonal_steps, name, None)
    monkeypatch.setattr(small_factors, "to_host", None)
    monkeypatch.setattr(device_steps, "pays_sketch", lambda *block: True)
    return counted


def test_short_blocks_are_not_sketched_on_the_device(
    gpu_backend: str, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch less for all of them, and one step more for those of a high condition. One column never needs it."""
    xp = testing.array_module(gpu_backend)
    monkeypatch.setattr(device_steps, "pays_sketch", tall_skinny_rules.pays_sketch)
    monkeypatch.setattr(device_steps, "plan_sketch", None)
    for n, kappa, most in ((1, 1.0, 3), (32, 1.0, 3), (32, 1e3, 5), (32, 1e12, 7)):
        V = xp.asarray(conditioned(600, n, kappa))
        passes.clear()
        Q, R = ms.cholesky_qr(V, **where(gpu_backend))
        assert sum(passes) <= most
        check(V, Q, R, residual=40)


def test_long_blocks_are_sketched_on_gpus() -> None:
    """Where a pass takes longer than a launch."""
    gpu = devices.H200
    assert tall_skinny_rules.pays_sketch("float64", 10_000_000, 32, gpu)
    assert not tall_skinny_rules.pays_sketch("float64", 10_000, 32, gpu)
    assert not tall_skinny_rules.pays_sketch("float64", 100_000_000, 1, gpu)


@pytest.mark.parametrize("spectrum", ["even", "one", "half", "pair"])
def test_passes_on_the_device(spectrum: str, gpu_backend: str, passes: list[int]) -> None:
    """As few as the host's, without a look at any matrix; and turned steps leave less behind than triangular ones."""
    xp = testing.array_module(gpu_backend)
    for kappa, most in ((1.0, 3 if spectrum != "pair" else 5), (1e3, 5), (1e7, 5), (1e9, 5), (1e12, 5)):
        V = xp.asarray(conditioned(600, 32, kappa, spectrum=spectrum))
        for out in (None, xp.empty_like(V), V.copy()):
            passes.clear()
            Q, R = ms.cholesky_qr(
                V if out is None or not bool((out == V).all()) else out, out=out, **where(gpu_backend)
            )
            assert sum(passes) == most if kappa < 1e8 else sum(passes) <= most
            check(V, Q, R, residual=40)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_wide_blocks_on_the_device(order: str, dtype: str, gpu_backend: str, passes: list[int]) -> None:
    """Without a fused kernel, gram and product take turns; the last product has no gram behind it."""
    xp = testing.array_module(gpu_backend)
    limit, n = unit_roundoff(dtype) ** -0.5, 26 if dtype.startswith("complex") else 52
    for kappa, most in ((1.0, 3), (limit / 100, 6), (limit * 10, 9)):
        V = xp.asarray(conditioned(200, n, kappa, dtype), order=order)
        passes.clear()
        Q, R = ms.cholesky_qr(V, out=V.copy(order="K"), **where(gpu_backend))
        assert sum(passes) <= most
        check(V, Q, R, residual=80)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_declined_is_left_alone(dtype: str, order: str, gpu_backend: str) -> None:
    """Passes that were queued before the device had looked at the Gram matrix write nothing."""
    xp = testing.array_module(gpu_backend)
    V = xp.asarray(conditioned(*SMALL, 10.0, dtype), order=order)
    for bad in (np.nan, np.inf):
        V[77, 3] = bad
        old = V.copy()
        with pytest.raises(ValueError, match="column 3 of V has entries that are not finite"):
            ms.cholesky_qr(V, out=V, **where(gpu_backend))
        assert bool(((old == V) | (xp.isnan(old) & xp.isnan(V))).all())


def test_edges_on_the_device(gpu_backend: str) -> None:
    xp = testing.array_module(gpu_backend)
    for K, n in ((1, 1), (5, 1), (40, 40), (30, 20), (500, 1)):
        V = xp.asarray(testing.random_matrix(np, K, n, "complex128", n))
        check(V, *ms.cholesky_qr(V, **where(gpu_backend)))
    V = testing.random_matrix(xp, *SMALL, "float64", 0)
    scales = xp.asarray(10.0 ** np.array([100, -100, 0, 50, -120, 3, -3, 120]))
    Q, R, dependent = ms.cholesky_qr(V * scales, on_deficient="flag", **where(gpu_backend))
    assert not dependent.any()
    check(V, Q, R / scales)


def test_torch_on_the_device() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    V = torch.tensor(conditioned(*SMALL, 1e3, "complex128"))
    for given in (V, V.conj()):
        Q, R = ms.cholesky_qr(given, backend="emulated")
        assert isinstance(R, torch.Tensor) and R.dtype == V.dtype
        check(given.resolve_conj(), Q, R)
        rest, G = ms.project(Q, given, backend="emulated")
        assert rest.abs().max() < 1e-13 and G.abs().max() < 1e-24


def test_the_host_goes_on_where_the_device_stops(gpu_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After no step, one, two and three: the same factorisation."""
    xp = testing.array_module(gpu_backend)
    for kappa in (1e3, 1e12, 1e15):
        V = xp.asarray(conditioned(*SMALL, kappa))
        for count in range(4):
            PLANS.forget()
            monkeypatch.setattr(device_steps, "STEPS", count)
            monkeypatch.setattr(device_steps, "pays_sketch", lambda *block, paid=count % 2 > 0: paid)
            check(V, *ms.cholesky_qr(V, **where(gpu_backend)))
            block = V.copy()
            check(V, *ms.cholesky_qr(block, out=block, **where(gpu_backend)))


def test_many_rows_are_as_orthonormal() -> None:
    V = testing.random_matrix(np, 1_000_000, 32, "float64", 0)
    Q, _ = ms.cholesky_qr(V, out=V)
    assert Q is V and np.abs(ms.gram(V) - np.eye(32)).max() < 1e-14 * 32
    small = np.linalg.qr(testing.random_matrix(np, 32, 32, "float64", 1))[0] * np.logspace(0, -12, 32)
    ms.matmul(V, small.T.copy(), out=V)
    ms.cholesky_qr(V, out=V)
    assert np.abs(ms.gram(V) - np.eye(32)).max() < 1e-14 * 32
