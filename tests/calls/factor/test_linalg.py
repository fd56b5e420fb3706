"""`ms.linalg`: LAPACK's ratios, exact cases, `info`, neighbours, factors in hand, least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from batched_cases import DTYPES
from linalg_cases import (
    KINDS,
    THRESHOLD,
    adjoint,
    by_libraries,  # noqa: F401
    cholesky_ratio,
    definite,
    lu_ratio,
    matrix,
    normal,
    positive,
    qr_ratios,
    solve_ratio,
)
from sparing import rotated

import mansard as ms
import mansard.linalg.positive
import mansard.linalg.systems
import mansard.settings
from mansard import testing

pytestmark = [pytest.mark.usefixtures("no_plans"), rotated(2)]

linalg = ms.linalg


def moved(array: Any, backend: str) -> Any:
    return testing.array_module(backend).array(array)


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


# ---- ratios ---------------------------------------------------------------------------------------------

ORDER = 12


def dtypes_of(backend: str) -> tuple[str, ...]:
    """Fewer where kernels take long to compile or to run."""
    return DTYPES if backend == "cuda" else ("float64", "complex64")


def test_cholesky_is_accurate(backend: str) -> None:
    rng = np.random.default_rng(0)
    for dtype in dtypes_of(backend):
        A = np.stack([positive(rng, kind, ORDER, dtype) for kind in KINDS])
        dirty = A.copy()
        dirty[:, *np.triu_indices(ORDER, 1)] = np.nan  # which is not read
        L, info = map(host, linalg.cholesky_ex(moved(dirty, backend), backend=backend))
        assert L.dtype == dtype and not info.any()
        for i, kind in enumerate(KINDS):
            assert cholesky_ratio(A[i], L[i]) < THRESHOLD, (dtype, kind)
        assert (np.triu(L, 1) == 0).all()
        U = host(linalg.cholesky(moved(adjoint(dirty), backend), upper=True, backend=backend))
        assert cholesky_ratio(A[:1], adjoint(U[:1])) < THRESHOLD and (np.tril(U, -1) == 0).all()


def test_lu_is_accurate_and_pivots_like_lapack(backend: str) -> None:
    rng = np.random.default_rng(1)
    for dtype in dtypes_of(backend):
        A = np.stack([matrix(rng, kind, ORDER, ORDER, dtype) for kind in KINDS])
        F, pivots, info = map(host, linalg.lu_factor_ex(moved(A, backend), backend=backend))
        assert pivots.dtype == info.dtype == np.int32 and not info.any()
        for i, kind in enumerate(KINDS):
            assert lu_ratio(A[i], F[i], pivots[i]) < THRESHOLD, (dtype, kind)
            if kind != "deficient":  # whose last columns are nothing but rounding errors
                assert (pivots[i] == scipy.linalg.lu_factor(A[i])[1]).all(), (dtype, kind)


def test_solutions_and_inverses_are_accurate(backend: str) -> None:
    rng = np.random.default_rng(2)
    kinds = [kind for kind in KINDS if kind != "deficient"]
    for dtype in dtypes_of(backend):
        A = np.stack([matrix(rng, kind, ORDER, ORDER, dtype) for kind in kinds])
        B = normal(rng, (len(kinds), ORDER, 2), dtype)
        X = host(linalg.solve(moved(A, backend), moved(B, backend), backend=backend))
        inverse = host(linalg.inv(moved(A, backend), backend=backend))
        S = np.stack([positive(rng, kind, ORDER, dtype) for kind in kinds])
        Y = host(linalg.solve(moved(S, backend), moved(B, backend), assume_a="pos", backend=backend))
        for i, kind in enumerate(kinds):
            assert solve_ratio(A[i], X[i], B[i]) < THRESHOLD, (dtype, kind)
            assert solve_ratio(S[i], Y[i], B[i]) < THRESHOLD, (dtype, kind)
            assert solve_ratio(A[i], inverse[i], np.eye(ORDER, dtype=dtype)) < THRESHOLD, (dtype, kind)


@pytest.mark.parametrize("shape", [(14, 9), (9, 14)])
def test_qr_is_accurate(backend: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    for dtype in dtypes_of(backend):
        A = np.stack([matrix(rng, kind, *shape, dtype) for kind in KINDS])
        Q, R = map(host, linalg.qr(moved(A, backend), backend=backend))
        for i, kind in enumerate(KINDS):
            residual, orthogonality = qr_ratios(A[i], Q[i], R[i])
            assert residual < THRESHOLD and orthogonality < THRESHOLD, (dtype, kind)
        h, tau = map(host, linalg.qr(moved(A[:1], backend), "raw", backend=backend))
        wanted_h, wanted_tau = np.linalg.qr(A[:1], "raw")
        tolerance = 1e3 * np.finfo(dtype).eps
        assert h.shape == (1, shape[1], shape[0]) and np.allclose(h, wanted_h, atol=tolerance)
        assert np.allclose(tau, wanted_tau, atol=tolerance)


def test_determinants(backend: str) -> None:
    rng = np.random.default_rng(4)
    for dtype in dtypes_of(backend):
        A = normal(rng, (5, 6, 6), dtype)
        A[1, 2] = A[1, 4]
        A[2] *= 2.0**10
        tolerance = 1e3 * np.finfo(dtype).eps
        found, wanted = host(linalg.det(moved(A, backend), backend=backend)), np.linalg.det(A.astype("complex128"))
        assert np.abs(found - wanted)[[0, 2, 3, 4]].max() <= tolerance * np.abs(wanted).max()
        sign, logarithm = map(host, linalg.slogdet(moved(A[[0, 2, 3]], backend), backend=backend))
        exact = np.linalg.slogdet(A[[0, 2, 3]].astype("complex128"))
        assert np.allclose(sign, exact[0], atol=tolerance) and np.allclose(logarithm, exact[1], atol=tolerance)
        assert sign.dtype == dtype and logarithm.dtype == np.finfo(dtype).dtype


# ---- exact cases, info, neighbours ----------------------------------------------------------------------


def test_exact(backend: str) -> None:
    rng = np.random.default_rng(5)
    L = np.tril(rng.integers(-2, 3, (9, 3, 3))).astype("float64")
    L[:, range(3), range(3)] = rng.choice([1, 2], (9, 3))
    assert (host(linalg.cholesky(moved(L @ adjoint(L), backend), backend=backend)) == L).all()
    A = np.array([[[0.0, 2], [1, 1]], [[2, 4], [1, 4]]])
    lu, piv = map(host, linalg.lu_factor(moved(A, backend), backend=backend))
    assert (lu == [[[1, 1], [0, 2]], [[2, 4], [0.5, 2]]]).all() and (piv == [[1, 1], [0, 1]]).all()
    assert (host(linalg.det(moved(A, backend), backend=backend)) == [-2, 4]).all()
    x = host(linalg.solve(moved(A, backend), moved(np.array([[[2.0], [3]], [[8.0], [6]]]), backend), backend=backend))
    assert (x == [[[2], [1]], [[2], [1]]]).all()
    assert (host(linalg.inv(moved(A[1:], backend), backend=backend)) == [[[1, -1], [-0.25, 0.5]]]).all()


def test_info_of_cholesky_and_neighbours(backend: str) -> None:
    rng = np.random.default_rng(6)
    A = definite(rng, (6,), 4)
    bad = A.copy()
    bad[1, 2, 2] = -1
    bad[2, 0, 0] = np.nan
    bad[3, 3, 3] = np.nan
    bad[4, 0, 0] = 0
    L, info = map(host, linalg.cholesky_ex(moved(bad, backend), backend=backend))
    assert info.tolist() == [0, 3, 1, 4, 1, 0] and info.dtype == np.int32
    good = host(linalg.cholesky_ex(moved(A, backend), backend=backend)[0])
    assert (L[[0, 5]] == good[[0, 5]]).all()
    with pytest.raises(np.linalg.LinAlgError, match=r"^a\[1\] is not positive definite: its leading minor of order 3"):
        linalg.cholesky(moved(bad, backend), backend=backend)


def test_info_of_lu_and_neighbours(backend: str) -> None:
    rng = np.random.default_rng(7)
    A, B = normal(rng, (5, 4, 4), "float64"), normal(rng, (5, 4, 1), "float64")
    bad = A.copy()
    bad[1, :, 1] = 0
    bad[3] = 0
    F, pivots, info = map(host, linalg.lu_factor_ex(moved(bad, backend), backend=backend))
    assert info.tolist() == [0, 2, 0, 1, 0]
    for i in (1, 3):  # and the factorization went on
        assert np.isfinite(F[i]).all() and lu_ratio(bad[i], F[i], pivots[i]) < THRESHOLD
    assert pivots[3].tolist() == [0, 1, 2, 3]
    places = moved(bad, backend), moved(B, backend)
    X, info = map(host, linalg.solve_ex(*places, backend=backend))
    alone = host(linalg.solve_ex(moved(A, backend), places[1], backend=backend)[0])
    assert info.tolist() == [0, 2, 0, 1, 0] and np.allclose(X[[0, 2, 4]], alone[[0, 2, 4]], rtol=1e-12)
    inverse, info = map(host, linalg.inv_ex(places[0], backend=backend))
    assert info.tolist() == [0, 2, 0, 1, 0] and solve_ratio(A[[0, 2, 4]], inverse[[0, 2, 4]], np.eye(4)) < THRESHOLD
    determinants = host(linalg.det(places[0], backend=backend))
    assert (determinants[[1, 3]] == 0).all() and np.allclose(determinants[[0, 2, 4]], np.linalg.det(A[[0, 2, 4]]))
    sign, logarithm = map(host, linalg.slogdet(places[0], backend=backend))
    assert (sign[[1, 3]] == 0).all() and (logarithm[[1, 3]] == -np.inf).all()
    for function, arguments in ((linalg.solve, places), (linalg.inv, places[:1])):
        with pytest.raises(np.linalg.LinAlgError, match=r"^a\[1\] is singular: pivot 1 of its elimination is zero"):
            function(*arguments, backend=backend)
    with pytest.warns(scipy.linalg.LinAlgWarning, match=r"^a\[1\] is singular: diagonal entry 1 of U is zero"):
        linalg.lu_factor(places[0], backend=backend)


def test_without_pivots(backend: str) -> None:
    rng = np.random.default_rng(8)
    A, B = normal(rng, (4, 3, 3), "float64") + 5 * np.eye(3), normal(rng, (4, 3, 2), "float64")
    F, pivots, info = map(host, linalg.lu_factor_ex(moved(A, backend), pivot=False, backend=backend))
    assert (pivots == np.arange(3)).all() and not info.any() and lu_ratio(A, F, pivots) < THRESHOLD
    X = host(linalg.solve(moved(A, backend), moved(B, backend), pivot=False, backend=backend))
    assert solve_ratio(A, X, B) < THRESHOLD
    A[2, 0, 0] = 0
    assert host(linalg.lu_factor_ex(moved(A, backend), pivot=False, backend=backend)[2]).tolist() == [0, 0, 1, 0]
    assert (
        solve_ratio(A[:2], host(linalg.inv_ex(moved(A, backend), pivot=False, backend=backend)[0])[:2], np.eye(3)) < 30
    )


# ---- factors in hand, least squares ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.usefixtures("libraries")
def test_solves_with_factors(dtype: str) -> None:
    rng = np.random.default_rng(9)
    A, B = normal(rng, (2, 3, 5, 5), dtype), normal(rng, (3, 5, 2), dtype)
    factors = linalg.lu_factor(A)
    for trans, op in ((0, A), (1, A.swapaxes(-1, -2)), (2, adjoint(A))):
        assert solve_ratio(op, linalg.lu_solve(factors, B, trans), np.broadcast_to(B, (2, 3, 5, 2))) < THRESHOLD
    assert np.allclose(linalg.lu_solve(factors, B[0, :, 0]), np.linalg.solve(A, B[0, :, 0]))
    S, out = definite(rng, (3,), 5, dtype), B.copy()
    for lower in (True, False):
        c = linalg.cholesky(S, upper=not lower)
        c[:, *(np.triu_indices(5, 1) if lower else np.tril_indices(5, -1))] = np.nan
        assert solve_ratio(S, linalg.cho_solve((c, lower), B), B) < THRESHOLD
    assert linalg.cho_solve((c, False), out, out=out) is out and solve_ratio(S, out, B) < THRESHOLD
    vector = np.ones(5, dtype)
    assert np.allclose(S @ linalg.cho_solve((c, False), vector)[..., None], 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("libraries")
def test_least_squares(dtype: str) -> None:
    rng = np.random.default_rng(10)
    tolerance = 1e3 * np.finfo(dtype).eps
    for rows, columns in ((7, 3), (3, 3), (3, 6)):
        A, B = normal(rng, (4, rows, columns), dtype), normal(rng, (4, rows, 2), dtype)
        wanted = [np.linalg.lstsq(a, b, rcond=None) for a, b in zip(A, B, strict=True)]
        for driver in ("svd", "qr"):
            x, residuals, rank, s = linalg.lstsq(A, B, driver=driver)
            assert np.allclose(x, [one[0] for one in wanted], atol=tolerance)
            assert x.dtype == dtype and rank.tolist() == [min(rows, columns)] * 4
            assert residuals.shape == (4, 2)
            if rows > columns:
                assert np.allclose(residuals, [one[1] for one in wanted], rtol=tolerance)
            assert s is None if driver == "qr" else np.allclose(s, [one[3] for one in wanted], rtol=tolerance)
        alone = linalg.lstsq(A[0], B[0, :, 0])
        for found, expected in zip(alone, np.linalg.lstsq(A[0], B[0, :, 0], rcond=None), strict=True):
            assert np.shape(found) == np.shape(expected) and np.allclose(found, expected, atol=tolerance)
    A[0, :, 1] = A[0, :, 0]
    deficient = np.stack([A[0].T @ A[0].conj(), np.eye(6, dtype=dtype)])
    x, _, rank, _ = linalg.lstsq(deficient, np.ones(6, dtype))
    assert x.shape == (2, 6) and rank[0] < 6 and rank[1] == 6
    with pytest.raises(np.linalg.LinAlgError, match="a has 3 rows and b 4"):
        linalg.lstsq(A, np.ones((4, 1), dtype))
