"""Orthonormal bases: `matmul_gram`, `project`, `cholesky_qr`, `orthogonalize`. Bounds count units of roundoff, u."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard import testing
from mansard.api import device_steps, fused, orthogonal, small_factors
from mansard.api.small_factors import CANCELLATION, WEAK, unit_roundoff
from mansard.errors import RankDeficient, UnsupportedProblem
from mansard.plan.problem import DTYPES

ORTHONORMAL = 60  # random data stay below 20
RESIDUAL = CANCELLATION / 4  # what a step without a turn may cost
ANY = 1e30
SMALL = (300, 8)  # enough for the kernels, few enough for the emulator


def conditioned(K: int, n: int, kappa: float, dtype: str = "float64", spectrum: str = "even", seed: int = 0) -> Any:
    """U sigma W^H with singular values from 1 to 1 / kappa; `pair` has two columns 1 / kappa apart instead."""
    wide = "complex128" if dtype.startswith("complex") else "float64"
    A = testing.random_matrix(np, K, n, wide, seed)
    if spectrum == "pair":
        A[:, 1] = A[:, 0] + A[:, 1] / kappa
        return A.astype(dtype)
    sigma = {
        "even": np.logspace(0, -np.log10(kappa), n),
        "one": np.r_[np.ones(n - 1), 1 / kappa],
        "half": np.r_[np.ones(n - n // 2), np.full(n // 2, 1 / kappa)],
    }[spectrum]
    right = np.linalg.qr(testing.random_matrix(np, n, n, wide, seed + 1))[0]
    return ((np.linalg.qr(A)[0] * sigma) @ right.conj().T).astype(dtype)


def host(array: Any) -> Any:
    """On the CPU, in double precision."""
    array = np.asarray(array.get() if hasattr(array, "get") else array)
    return array.astype("complex128" if array.dtype.kind == "c" else "float64")


def where(backend: str) -> dict[str, Any]:
    return {"backend": None if backend == "cuda" else backend}


def check(V: Any, Q: Any, R: Any, dependent: Any = None, residual: float = RESIDUAL) -> None:
    """Q orthonormal, R upper triangular with a positive diagonal, V = Q R column by column."""
    u = unit_roundoff(str(Q.dtype).removeprefix("torch."))
    V, Q, R = host(V), host(Q), host(R)
    kept = np.ones(V.shape[1]) if dependent is None else 1.0 * ~dependent
    assert np.abs(Q.conj().T @ Q - np.diag(kept)).max() <= ORTHONORMAL * u
    assert not np.tril(R, -1).any() and (np.diag(R).imag == 0).all() and ((np.diag(R).real > 0) == (kept > 0)).all()
    norms = np.linalg.norm(V, axis=0)
    assert (np.linalg.norm(V - Q @ R, axis=0) <= residual * u * norms).all()


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
    with pytest.raises(TypeError, match="V has dtype float64 and W float32"):
        ms.project(V, np.ones((100, 2), "float32"))
    with pytest.raises(UnsupportedProblem, match="V has dtype int"):
        ms.project(V.astype(int), V.astype(int))


# cholesky_qr


@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky_qr_by_dtype(dtype: str, backend: str) -> None:
    for kappa in (1.0, 1e2, 1e4, 1e6) if unit_roundoff(dtype) > 1e-10 else (1.0, 1e3, 1e7, 1e12, 1e15):
        V = testing.array_module(backend).asarray(conditioned(*SMALL, kappa, dtype))
        old = V.copy()
        Q, R = ms.cholesky_qr(V, **where(backend))
        assert Q.dtype == R.dtype == V.dtype and type(Q) is type(R) is type(V) and bool((old == V).all())
        check(V, Q, R)


@pytest.mark.parametrize("spectrum", ["even", "one", "half", "pair"])
@pytest.mark.parametrize("n", [2, 32])
def test_cholesky_qr_by_condition(n: int, spectrum: str) -> None:
    for kappa in (1e1, 1e5, 1e7, 3e7, 1e8, 1e10, 1e12, 1e14):
        V = conditioned(1500, n, kappa, spectrum=spectrum)
        check(V, *ms.cholesky_qr(V))
    if spectrum != "pair":  # whose two columns are a few roundoffs apart in single precision
        V = conditioned(1500, n, 1e6, "float32", spectrum)
        check(V, *ms.cholesky_qr(V))


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


@pytest.mark.parametrize("spectrum", ["even", "one", "half", "pair"])
def test_passes_over_memory(spectrum: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = 0

    def spy(name: str, cost: int) -> None:
        function = getattr(orthogonal, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal passes
            passes += cost
            return function(*arguments, **options)

        monkeypatch.setattr(orthogonal, name, counted)

    for name, cost in (("gram", 1), ("multiplied", 2), ("matmul", 2)):  # reads, and writes
        spy(name, cost)
    for kappa, most in ((1.0, 3 if spectrum != "pair" else 5), (1e3, 5), (1e7, 5), (1e9, 7), (1e12, 7)):
        passes = 0
        ms.cholesky_qr(conditioned(5000, 32, kappa, spectrum=spectrum))
        assert passes == most if kappa < 1e8 else passes <= most


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

    plan = device_steps.plan_matmul_gram
    monkeypatch.setattr(device_steps, "gram", count(1, device_steps.gram))
    monkeypatch.setattr(device_steps, "matmul", count(2, device_steps.matmul))
    monkeypatch.setattr(device_steps, "plan_matmul_gram", lambda *arrays: (run := plan(*arrays)) and count(2, run))
    for name in ("gram", "matmul", "multiplied"):
        monkeypatch.setattr(orthogonal, name, None)
    monkeypatch.setattr(small_factors, "to_host", None)
    return counted


@pytest.mark.parametrize("spectrum", ["even", "one", "half", "pair"])
def test_passes_on_the_device(spectrum: str, gpu_backend: str, passes: list[int]) -> None:
    """As few as the host's, without a look at any matrix; and turned steps leave less behind than triangular ones."""
    xp = testing.array_module(gpu_backend)
    for kappa, most in ((1.0, 3 if spectrum != "pair" else 5), (1e3, 5), (1e7, 5), (1e9, 7), (1e12, 7)):
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
            monkeypatch.setattr(device_steps, "_PLANNED", {})
            monkeypatch.setattr(device_steps, "STEPS", count)
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


def test_out_and_layouts(backend: str) -> None:
    xp = testing.array_module(backend)
    V = xp.asarray(conditioned(*SMALL, 1e9))
    Q, R = ms.cholesky_qr(V, **where(backend))
    for other in (xp.asfortranarray(V), xp.repeat(V, 2, axis=1)[:, ::2], V.copy()):
        old = other.copy()
        out = xp.empty_like(V)
        got, factor = ms.cholesky_qr(other, out=out, **where(backend))
        assert got is out and bool((other == old).all())
        check(V, got, factor)
        got, factor = ms.cholesky_qr(other, out=other, **where(backend))
        assert got is other
        check(V, got, factor)
    check(V, Q, R)


def test_shapes_at_the_edges() -> None:
    for K, n in ((1, 1), (5, 1), (1000, 1), (40, 40), (128, 128), (30, 20)):
        V = testing.random_matrix(np, K, n, "complex128", n)
        check(V, *ms.cholesky_qr(V))
    Q, R = ms.cholesky_qr(np.ones((5, 0)))
    assert Q.shape == (5, 0) and R.shape == (0, 0)


def test_columns_of_any_size_are_well_conditioned() -> None:
    V = testing.random_matrix(np, *SMALL, "float64", 0)
    Q, R = ms.cholesky_qr(V)
    scales = 10.0 ** np.array([100, -100, 0, 50, -120, 3, -3, 120])
    same, scaled = ms.cholesky_qr(V * scales, shift="never")
    check(V, same, scaled / scales)
    assert np.allclose(same, Q) and np.allclose(scaled / scales, R)


def test_shift_options() -> None:
    V = conditioned(2000, 32, 1e9)
    with pytest.raises(RankDeficient, match=r"two steps of Cholesky QR: pass shift='auto'") as caught:
        ms.cholesky_qr(V, shift="never")
    assert caught.value.column > 16  # where the singular values have fallen to 1 / sqrt(u)
    for kappa in (1.0, 1e7, 1e12):
        V = conditioned(2000, 32, kappa)
        check(V, *ms.cholesky_qr(V, shift="always"))
    V = conditioned(2000, 32, 1e7)
    check(V, *ms.cholesky_qr(V, shift="never"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dependent_column_is_named(dtype: str, backend: str) -> None:
    xp = testing.array_module(backend)
    V = testing.random_matrix(xp, *SMALL, dtype, 3)
    zero, twice, sums = V.copy(), V.copy(), V.copy()
    zero[:, 5] = 0
    twice[:, 4] = V[:, 1]
    sums[:, 6] = V[:, :3].sum(axis=1) * 0.3
    for matrix, column, why in ((zero, 5, "is zero"), (twice, 4, "depends"), (sums, 6, "depends")):
        with pytest.raises(np.linalg.LinAlgError, match=f"column {column} of V {why}") as caught:
            ms.cholesky_qr(matrix, **where(backend))
        assert caught.value.column == column  # type: ignore[attr-defined]
        Q, R, dependent = ms.cholesky_qr(matrix, on_deficient="flag", **where(backend))
        assert dependent.tolist() == [j == column for j in range(8)]
        check(matrix, Q, R, dependent)


def test_low_rank() -> None:
    rng = np.random.default_rng(0)
    for K, n, rank in ((500, 20, 1), (500, 20, 5), (500, 32, 31), (60, 40, 3)):
        V = rng.standard_normal((K, rank)) @ rng.standard_normal((rank, n))
        Q, R, dependent = ms.cholesky_qr(V, on_deficient="flag", backend="reference")
        assert dependent.tolist() == [j >= rank for j in range(n)]
        check(V, Q, R, dependent, residual=RESIDUAL + WEAK)
    # even the rounding errors of these are dependent
    for V in (np.ones((500, 20)), np.zeros((50, 3)), np.repeat(np.eye(50, 4), 3, axis=1)):
        Q, R, dependent = ms.cholesky_qr(V, on_deficient="flag", backend="reference")
        assert (~dependent).sum() == np.linalg.matrix_rank(V)
        check(V, Q, R, dependent)


def test_bad_input_to_cholesky_qr_is_named(backend: str) -> None:
    V = testing.array_module(backend).asarray(conditioned(*SMALL, 10.0))
    for bad in (np.nan, np.inf, 1e200):
        V[77, 3] = bad
        with pytest.raises(ValueError, match="column 3 of V has entries that are not finite"):
            ms.cholesky_qr(V, **where(backend))
        with pytest.raises(ValueError, match="column 3 of V has entries that are not finite"):
            ms.orthogonalize(V, testing.array_module(backend).eye(300, 2), **where(backend))


def test_bad_entries_of_the_basis_are_named() -> None:
    V, basis = conditioned(*SMALL, 10.0), np.eye(300, 3)
    basis[5, 1] = np.nan
    with pytest.raises(ValueError, match="column 1 of against has entries that are not finite"):
        ms.orthogonalize(V, basis)
    with pytest.raises(ValueError, match="column 0 of V or against"):
        ms.orthogonalize(V, basis[:, 1:2])


def test_bad_arguments_are_named() -> None:
    V = conditioned(*SMALL, 10.0)
    for call, message in (
        (lambda: ms.cholesky_qr(V.T), "fewer rows than columns.*pass V.T"),
        (lambda: ms.cholesky_qr(V[0]), "V has shape"),
        (lambda: ms.cholesky_qr(V * 1e-160), "column 0 of V has norm .* underflows: scale it"),
        (lambda: ms.cholesky_qr(V, out=V[:, :3]), "out has shape"),
        (lambda: ms.cholesky_qr(V[1:], out=V[:-1]), "out overlaps V"),
        (lambda: ms.cholesky_qr(V, shift="maybe"), "shift='maybe' is not one of"),
        (lambda: ms.cholesky_qr(V, on_deficient="ignore"), "on_deficient='ignore' is not one of"),
        (lambda: ms.orthogonalize(V, against=V[:9]), "V has 300 rows and against 9"),
        (lambda: ms.orthogonalize(V[:9], against=V[:9]), "too many to be orthogonal"),
        (lambda: ms.orthogonalize(V, against=np.eye(300, 3)[:, ::-1], out=V[:, ::-1]), "out overlaps V"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(UnsupportedProblem, match="V has dtype int64"):
        ms.cholesky_qr(np.ones((9, 2), int))
    with pytest.raises(TypeError, match=r"V is a builtins\.list"):
        ms.cholesky_qr([[1.0]])


# orthogonalize


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [1.0, 1e-3, 0.0])
def test_orthogonalize(share: float, dtype: str, backend: str) -> None:
    """A share of V lies beside the basis; with none of it, every column is dependent."""
    xp = testing.array_module(backend)
    u = unit_roundoff(dtype)
    basis = xp.asarray(np.linalg.qr(testing.random_matrix(np, 300, 8, dtype, 0))[0])
    beside = testing.random_matrix(xp, 300, 5, dtype, 2) * basis.real.dtype.type(share)
    V = basis @ testing.random_matrix(xp, 8, 5, dtype, 1) + beside
    out = xp.empty_like(V)
    for target in (None, out, V.copy()):
        given = V if target is None or target is out else target
        Q, R, H, dependent = ms.orthogonalize(given, basis, out=target, on_deficient="flag", **where(backend))
        assert (target is None or Q is target) and dependent.tolist() == [share == 0] * 5
        check(V - basis @ H if share else V * 0, Q, R, dependent, residual=ANY)
        assert np.abs(host(basis).conj().T @ host(Q)).max() <= ORTHONORMAL * u
        left = host(V) - host(basis) @ host(H) - host(Q) @ host(R)
        assert (np.linalg.norm(left, axis=0) <= RESIDUAL * u * np.linalg.norm(host(V), axis=0)).all()
    if share == 0:
        with pytest.raises(RankDeficient, match="column 0 of V depends on against"):
            ms.orthogonalize(V, against=basis, **where(backend))


@pytest.mark.parametrize("kappa", [1e4, 1e9, 1e13])
def test_orthogonalize_what_is_ill_conditioned(kappa: float) -> None:
    basis = np.linalg.qr(testing.random_matrix(np, 3000, 24, "float64", 5))[0]
    V = conditioned(3000, 16, kappa) + basis @ testing.random_matrix(np, 24, 16, "float64", 6)
    V[:, 3] = basis[:, 2]
    Q, R, H, dependent = ms.orthogonalize(V, against=basis, on_deficient="flag")
    assert dependent.tolist() == [j == 3 for j in range(16)]
    check(V - basis @ H, Q, R, dependent, residual=ANY)
    assert np.abs(basis.T @ Q).max() <= ORTHONORMAL * 2.0**-53
    assert (np.linalg.norm(V - basis @ H - Q @ R, axis=0) <= RESIDUAL * 2.0**-53 * np.linalg.norm(V, axis=0)).all()


def test_orthogonalize_against_nothing_is_cholesky_qr() -> None:
    V = conditioned(*SMALL, 1e3)
    Q, R, H = ms.orthogonalize(V, against=np.ones((300, 0)))
    check(V, Q, R)
    assert H.shape == (0, 8)


# array libraries


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    V = torch.tensor(conditioned(*SMALL, 1e3, dtype))
    Q, R = ms.cholesky_qr(V)
    assert isinstance(Q, torch.Tensor) and isinstance(R, torch.Tensor) and Q.dtype == R.dtype == V.dtype
    check(V, Q, R)
    mirrored, _ = ms.cholesky_qr(V.conj())
    assert torch.allclose(mirrored, Q.conj(), atol=1e-4)
    Q2, R2, H, dependent = ms.orthogonalize(torch.cat([V[:, :2], torch.ones_like(V[:, :1])], 1), Q, on_deficient="flag")
    assert isinstance(H, torch.Tensor) and dependent.tolist() == [True, True, False]
    assert torch.allclose(Q @ H[:, 2:] + Q2 @ R2[:, 2:], torch.ones_like(V[:, :1]), atol=1e-4)
    W, G = ms.matmul_gram(Q, R)
    assert torch.allclose(W, V, atol=1e-4) and torch.allclose(G, V.mH @ V, atol=1e-4)
    rest, _ = ms.project(Q, V)
    assert rest.abs().max() < 1e-5


def test_jax() -> None:
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed")
    V = jnp.asarray(conditioned(*SMALL, 1e3, "float32"))
    Q, R = ms.cholesky_qr(V)
    assert type(Q) is type(V) and type(R) is type(V)
    check(V, Q, R)
    Q2, _, H, dependent = ms.orthogonalize(V[:, :2] + 1, Q, on_deficient="flag")
    assert type(Q2) is type(V) and H.shape == (8, 2) and dependent.tolist() == [False, True]
    rest, G = ms.project(Q, V)
    assert type(rest) is type(G) is type(V) and float(abs(rest).max()) < 1e-5
    with pytest.raises(TypeError, match="JAX array, which cannot be written to"):
        ms.cholesky_qr(V, out=V)
    with pytest.raises(TypeError, match="V is a JAX array and S a NumPy"):
        ms.matmul_gram(V, np.eye(8, dtype="float32"))
