"""`cholesky_qr` and `orthogonalize` as they are called: places, edges, dependent columns, bad input, libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from orthogonal_cases import ORTHONORMAL, RESIDUAL, SMALL, check, conditioned, host, where

import mansard as ms
from mansard import testing
from mansard.errors import RankDeficient, UnsupportedProblem
from mansard.operations.tall_skinny import orthogonal
from mansard.operations.tall_skinny.small_factors import WEAK, unit_roundoff
from mansard.plan.problem import DTYPES

ANY = 1e30


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


def test_places_are_checked_once(backend: str, monkeypatch: pytest.MonkeyPatch, no_plans: None) -> None:
    """A second call with the same V and `out` asks for addresses alone; one whose `out` overlaps V is refused still."""
    xp = testing.array_module(backend)
    room = xp.zeros(SMALL[0] * SMALL[1] + 8)
    V, out, beyond = xp.asarray(conditioned(*SMALL, 10.0)), xp.empty(SMALL), room[8:].reshape(SMALL)
    room[:-8] = V.ravel()
    again = room[:-8].reshape(SMALL)
    asked = 0
    checked = orthogonal.checked

    def counted(given: dict[str, Any]) -> Any:
        nonlocal asked
        asked += 1
        return checked(given)

    monkeypatch.setattr(orthogonal, "checked", counted)
    for _ in range(3):
        check(V, *ms.cholesky_qr(V, out=out, **where(backend)))
    assert asked == 1
    with pytest.raises(ValueError, match="overlaps"):
        ms.cholesky_qr(again, out=beyond, **where(backend))


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
        ms.cholesky_qr([["a"]])


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
