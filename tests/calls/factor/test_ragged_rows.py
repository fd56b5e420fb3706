"""Factorizations of ragged batches on a CPU: sizes at run time, one kernel per method and dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from cholesky_cases import P, factors
from conftest import needs_cpu
from ragged_cases import exact_lu, guarded, numbers, outside

import mansard as ms
from mansard import linalg, testing
from mansard.backends import cpu
from mansard.errors import IllegalConfig
from mansard.kernels.factor.ragged_factor import space_cpu
from mansard.operations.plans import PLANS
from mansard.plan.problem import DTYPES

pytestmark = needs_cpu
ORDERS = [3, 0, 1, 2, 7, 8, 9, 33, 4, 5, 15, 16, 17, 31, 32]  # ends of vectors of all lengths
FIFTY = [1 + i % 29 for i in range(50)]
LU, OTHERS = DTYPES, ["float64", "complex128"]  # dtypes of LU, and of other methods


def equal(found: Any, expected: Any) -> bool:
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


# ---- LU -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", LU)
def test_lu_is_exact(dtype: str) -> None:
    """Factors, pivots, solutions and determinants; nothing is read or written between the matrices."""
    rng = np.random.default_rng(1)
    made = [exact_lu(rng, n, n, dtype) for n in ORDERS]
    A, F, pivots = (list(column) for column in zip(*made, strict=True))
    a = guarded(rng, A, dtype)
    out = guarded(rng, [np.full_like(one, np.nan) for one in A], dtype)
    found, piv, info = linalg.lu_factor_ex(a, out=out)
    assert found is out and equal(found, F) and [one.tolist() for one in piv] == pivots and not info.any()
    assert np.isnan(outside(out)).all() and info.dtype == piv[0].dtype == np.int32
    X = [rng.integers(-3, 4, (n, k)).astype(dtype) for n, k in zip(ORDERS, [1, 2, 9] * 5, strict=True)]
    b = guarded(rng, [(one @ x).astype(dtype) for one, x in zip(A, X, strict=True)], dtype)
    assert equal(linalg.solve(a, b), X)
    assert dtype not in OTHERS or equal(linalg.lu_solve((found, piv), b), X)
    signs = [(-1.0) ** sum(i != p for i, p in enumerate(one)) for one in pivots]
    expected = [sign * np.prod(np.diag(one)) for sign, one in zip(signs, F, strict=True)]
    assert np.array_equal(linalg.det(a), np.array(expected, dtype))
    sign, logabs = linalg.slogdet(a)
    assert np.array_equal(sign, [np.sign(one.real) for one in expected]) and sign.dtype == np.dtype(dtype)
    assert np.allclose(logabs, np.log(np.abs(expected)), rtol=4 * testing.gamma(dtype, 1))
    assert linalg.lu_factor(a, out=a)[0] is a and equal(a, F)


def test_rectangular_factors_are_exact() -> None:
    rng = np.random.default_rng(2)
    shapes = [(3, 5), (5, 3), (1, 4), (4, 1), (17, 9), (9, 17), (33, 2), (0, 3), (3, 0), (2, 33)]
    made = [exact_lu(rng, m, n, "float64") for m, n in shapes]
    found, piv, info = linalg.lu_factor_ex(ms.Ragged.from_list([one for one, _, _ in made]))
    assert equal(found, [F for _, F, _ in made]) and [one.tolist() for one in piv] == [p for _, _, p in made]
    assert not info.any()


@pytest.mark.parametrize("dtype", OTHERS)
def test_lu_keeps_to_the_bound(dtype: str) -> None:
    rng = np.random.default_rng(3)
    A = [numbers(rng, (n, n), dtype) for n in (*FIFTY[::4], 65, 130)]  # the last one is LAPACK's
    a, near = ms.Ragged.from_list(A), 1e-11
    lu, piv = linalg.lu_factor(a)
    for one, F, pivots in zip(A, lu, piv, strict=True):
        wanted, order = scipy.linalg.lu_factor(one)
        assert np.array_equal(order, pivots) and abs(F - wanted).max() <= near
    assert all(abs(x @ one - np.eye(len(one))).max() <= near for x, one in zip(linalg.inv(a), A, strict=True))
    expected = [np.linalg.slogdet(one) for one in A]
    found = linalg.slogdet(a)
    assert np.allclose(found.sign, [one[0] for one in expected], rtol=near)
    assert np.allclose(found.logabsdet, [one[1] for one in expected], rtol=near)
    turned = ms.Ragged.from_list([numbers(rng, (len(one), 2), dtype) for one in A])
    for trans, of in ((1, lambda one: one.T), (2, lambda one: one.conj().T)):
        x = linalg.lu_solve((lu, piv), turned, trans)
        assert all(abs(of(one) @ y - b).max() <= near for one, y, b in zip(A, x, turned, strict=True))


def test_bad_matrices_say_so_and_spoil_only_themselves() -> None:
    """Zero columns, zero pivots without exchanges, NaN, infinities and subnormal pivots."""
    rng = np.random.default_rng(4)
    A = [exact_lu(rng, n, n, "float64")[0] for n in (5, 9, 4, 17, 3, 6)]
    X = [np.arange(2.0 * len(one)).reshape(-1, 2) for one in A]
    b = ms.Ragged.from_list([one @ x for one, x in zip(A, X, strict=True)])
    A[1][:, 4], A[3][2] = 0, np.nan
    A[4] *= 2.0**-1040
    b[4][...] *= 2.0**-1040
    x, info = linalg.solve_ex(ms.Ragged.from_list(A), b)
    assert info.tolist() == [0, 5, 0, 0, 0, 0]
    assert all(np.array_equal(x[i], X[i]) for i in (0, 2, 4, 5)) and np.isnan(x[3]).any()
    with pytest.raises(np.linalg.LinAlgError, match=r"^a\[1\] is singular: pivot 4 of its elimination is zero"):
        linalg.inv(ms.Ragged.from_list(A))
    plain = ms.Ragged.from_list([np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[2.0, 4.0], [1.0, 3.0]])])
    F, piv, info = linalg.lu_factor_ex(plain, pivot=False)
    assert info.tolist() == [1, 0] and np.array_equal(F[1], [[2, 4], [0.5, 1]]) and piv[1].tolist() == [0, 1]
    assert linalg.det(plain).tolist() == [-1, 2]


# ---- Cholesky -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", OTHERS)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_is_exact(dtype: str, upper: bool) -> None:
    rng = np.random.default_rng(5)
    L = [factors(P(dtype, max(1, n), 1), np, i)[0, :n, :n] for i, n in enumerate(ORDERS)]
    whole = [one @ one.conj().T for one in L]
    masks = [np.tri(n, dtype=bool) for n in ORDERS]
    A = [np.where(mask.T if upper else mask, one, np.nan) for mask, one in zip(masks, whole, strict=True)]
    a = guarded(rng, A, dtype)
    found, info = linalg.cholesky_ex(a, upper=upper)
    assert equal(found, [one.conj().T if upper else one for one in L]) and not info.any()
    if not upper:
        X = [rng.integers(-3, 4, (n, k)).astype(dtype) for n, k in zip(ORDERS, [1, 3, 10] * 5, strict=True)]
        b = guarded(rng, [one @ x for one, x in zip(whole, X, strict=True)], dtype)
        assert equal(linalg.cho_solve((found, True), b), X)
        assert linalg.solve(a, b, assume_a="pos", out=b) is b and equal(b, X) and np.isnan(outside(b)).all()
    else:
        X = [rng.integers(-3, 4, (n, 2)).astype(dtype) for n in ORDERS]
        b = ms.Ragged.from_list([one @ x for one, x in zip(whole, X, strict=True)])
        assert equal(linalg.cho_solve((found, False), b), X)


def test_matrices_that_are_not_definite_say_so() -> None:
    A = [np.eye(n) * 4 for n in (3, 8, 1, 20, 150, 2)]
    A[1][5, 5], A[3][19, 19], A[4][140, 140] = -1, np.nan, 0
    found, info = linalg.cholesky_ex(ms.Ragged.from_list(A))
    assert info.tolist() == [0, 6, 0, 20, 141, 0] and np.array_equal(found[5], 2 * np.eye(2))
    with pytest.raises(np.linalg.LinAlgError, match=r"^a\[1\] is not positive definite: its leading minor of order 6"):
        linalg.cholesky(ms.Ragged.from_list(A))


# ---- QR -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_qr_keeps_to_the_bound(dtype: str) -> None:
    rng = np.random.default_rng(6)
    shapes = [(n, n) for n in ORDERS] + [(3, 5), (5, 3), (40, 7), (7, 40), (1, 9), (9, 1), (3, 0), (0, 2), (140, 3)]
    A = [numbers(rng, shape, dtype) for shape in shapes]
    A[4][:, 2] = 0
    A[5] *= 1e-30 if dtype == "complex64" else 1e-200
    a, near = ms.Ragged.from_list(A), 200 * np.finfo(dtype).eps
    for mode in ("reduced", "complete"):
        Q, R = linalg.qr(a, mode)
        for one, q, r in zip(A, Q, R, strict=True):
            wanted = np.linalg.qr(one, mode)
            assert (q.shape, r.shape) == (wanted[0].shape, wanted[1].shape) and np.array_equal(r, np.triu(r))
            size = abs(one).max(initial=0)
            assert abs(q @ r - one).max(initial=0) <= near * size
            assert abs(q.conj().T @ q - np.eye(q.shape[1])).max(initial=0) <= near
    assert equal(linalg.qr(a, "r"), linalg.qr(a, "reduced").R)
    h, tau = linalg.qr(a, "raw")
    for one, found, factor in zip(A[6:], list(h)[6:], tau[6:], strict=True):
        wanted = np.linalg.qr(one, "raw")
        assert found.shape == wanted[0].shape and np.allclose(found, wanted[0], atol=near)
        assert np.allclose(factor, wanted[1], atol=near) and factor.dtype == np.dtype(dtype)


# ---- one kernel for all sizes ---------------------------------------------------------------------------------


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Texts of the kernels that calls prepare."""
    texts: list[str] = []
    prepare = cpu.CpuBackend.prepare

    def counted(backend: Any, kernel: Any) -> Any:
        texts.append(kernel.source.text)
        return prepare(backend, kernel)

    monkeypatch.setattr(cpu.CpuBackend, "prepare", counted)
    PLANS.forget()
    yield texts
    PLANS.forget()


def test_fifty_orders_take_one_kernel_per_method(prepared: list[str]) -> None:
    rng = np.random.default_rng(7)
    G = [rng.standard_normal((n, n)) for n in FIFTY]
    a = ms.Ragged.from_list([one @ one.T + np.eye(len(one)) for one in G])
    b = ms.Ragged.from_list([rng.standard_normal((n, 1)) for n in FIFTY])
    for call in (
        lambda: linalg.cholesky(a), lambda: linalg.solve(a, b, assume_a="pos"), lambda: linalg.lu_factor(a),
        lambda: linalg.solve(a, b), lambda: linalg.inv(a), lambda: linalg.det(a), lambda: linalg.slogdet(a),
        lambda: linalg.qr(a), lambda: linalg.qr(a, "r"), lambda: ms.blas.trsm(a, b), lambda: ms.matmul(a, b),
    ):  # fmt: skip
        before = len(prepared)
        call(), call()
        assert len(prepared) <= before + 1
    assert len(set(prepared)) <= 5  # cholesky, lu, qr, triangles, products


def test_runs_are_forgotten_after_tuning_and_pins_reach_them(prepared: list[str]) -> None:
    a = ms.Ragged.from_list([np.eye(n) * 4 for n in (2, 3, 5)])
    linalg.cholesky(a), linalg.cholesky(a), ms.matmul(a, a), ms.matmul(a, a)
    assert len(prepared) == 2
    PLANS.forget()
    linalg.cholesky(a), ms.matmul(a, a)
    assert len(prepared) == 4
    with ms.pin(ROWS=1):
        assert equal(linalg.cholesky(a), [np.eye(n) * 2 for n in (2, 3, 5)])
    assert "ROWS = 1;" in prepared[-1]
    with ms.pin(WIDEST=3):  # the third one is LAPACK's
        assert equal(linalg.cholesky(a), [np.eye(n) * 2 for n in (2, 3, 5)])
    with ms.pin(VARIANT="vendor"):
        count = len(prepared)
        assert equal(linalg.cholesky(a), [np.eye(n) * 2 for n in (2, 3, 5)]) and len(prepared) == count
    with ms.pin(ROWS=3), pytest.raises(IllegalConfig, match="ROWS=3 of rows is not one of 1, 2, 4, 8"):
        linalg.cholesky(a)
    with ms.pin(TILE_M=2, TILE_N=2):  # of kernels for one size
        assert equal(linalg.cholesky(a), [np.eye(n) * 2 for n in (2, 3, 5)])
    assert "TILE_M = 2;" in prepared[-1]


def test_results_go_where_they_overlap_what_is_read() -> None:
    buffer = np.zeros(40)
    a = ms.Ragged(buffer, [2, 3], [2, 3], [0, 4])
    for one in a:
        one[...] = np.eye(len(one)) * 4
    shifted = ms.Ragged(buffer, [2, 3], [2, 3], [2, 6])
    assert linalg.cholesky(a, out=shifted) is shifted and equal(shifted, [np.eye(2) * 2, np.eye(3) * 2])


def test_what_does_not_fit() -> None:
    a, b = ms.Ragged.from_list([np.eye(3), np.eye(2)]), ms.Ragged.from_list([np.ones((3, 1)), np.ones((3, 1))])
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[0\] has shape \(3, 1\): its last two dimensions"):
        linalg.inv(b)
    with pytest.raises(ValueError, match=r"a\[1\] has 2 rows and b\[1\] 3: both need the same number"):
        linalg.solve(a, b)
    with pytest.raises(ValueError, match=r"lu\[1\] has 2 rows and b\[1\] 3"):
        linalg.lu_solve((a, [np.arange(3), np.arange(2)]), b)
    c = ms.Ragged.from_list([np.ones((3, 1)), np.ones((2, 1))])
    with pytest.raises(ValueError, match=r"piv\[1\] names a row that lu\[1\] does not have"):
        linalg.lu_solve((a, [np.arange(3), np.array([0, 2])]), c)
    with pytest.raises(ValueError, match=r"piv\[0\] has shape \(2,\)"):
        linalg.lu_solve((a, [np.arange(2), np.arange(2)]), c)
    with pytest.raises(ValueError, match=r"out\[1\] has shape \(3, 1\), the result \(2, 1\)"):
        linalg.solve(a, c, out=b)


def test_workspaces_hold_every_size() -> None:
    """As the kernels lay them out, for vectors of 16 to 64 bytes."""
    from mansard.kernels.factor.ragged_factor import spec

    for dtype, real in (("float32", 4), ("float64", 8), ("complex64", 4), ("complex128", 8)):
        problem, words = spec.problem(dtype, 1), 2 if dtype.startswith("complex") else 1
        for rows, columns, beside in ((1, 1, 0), (1, 1, 1), (3, 3, 1), (17, 17, 17), (128, 128, 128), (2, 128, 2)):
            for lanes in (16 // real, 32 // real, 64 // real):

                def pitch(reals: int, lanes: int = lanes, real: int = real) -> int:
                    whole = -(-reals // lanes) * lanes
                    return whole + 64 // real if whole * real % 512 == 0 else whole

                beside_rows = pitch(-(-columns * words // lanes) * lanes + beside * words)
                apart = pitch(columns * words) + pitch(beside * words)
                needed = (rows + 1) * max(beside_rows, apart) + (2 + 8 // real) * (rows + columns)
                assert space_cpu.reals(problem, rows, columns, beside) >= needed


def test_lists_of_different_shapes_are_ragged_batches() -> None:
    """Lists in, lists out; integers are converted, `out` is written, vectors are columns."""
    A = [np.array([[2, 1], [0, 4]]), np.array([[8]]), np.array([[1, 0, 0], [0, 2, 0], [0, 0, 4]])]
    B = [np.ones((len(one), 1 + i)) for i, one in enumerate(A)]
    x = linalg.solve(A, B)
    assert isinstance(x, list) and all(np.allclose(one @ y, b) for one, y, b in zip(A, x, B, strict=True))
    out = [np.zeros_like(b) for b in B]
    assert linalg.solve(A, B, out=out) is out and equal(out, x)
    lu, piv = linalg.lu_factor(A)
    assert equal(lu, [one.astype(float) for one in A]) and [one.tolist() for one in piv] == [[0, 1], [0], [0, 1, 2]]
    assert equal(linalg.lu_solve((lu, piv), B), x) and linalg.det(A).tolist() == [8, 8, 8]
    assert equal(ms.matmul(lu, B), [one @ b for one, b in zip(A, B, strict=True)])
    assert equal(ms.matmul(lu, B, out=out), [one @ b for one, b in zip(A, B, strict=True)])
    found = linalg.solve(A, [np.ones(2), np.ones(1), np.ones(3)])
    assert [one.tolist() for one in found] == [[0.375, 0.25], [0.125], [1, 0.5, 0.25]]
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[1\] has shape \(1, 2\): its last two dimensions must be"):
        linalg.inv([np.eye(2), np.ones((1, 2))])
