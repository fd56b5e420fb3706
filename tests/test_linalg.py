"""Batched factorizations from the outside: against NumPy and SciPy, exact small cases, LAPACK's test ratios, `info`,
bad neighbours, every form of stacks, lists and ragged batches, blocks, and bad input by name."""

from __future__ import annotations

import doctest
import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from batched_cases import DTYPES, arranged
from linalg_cases import (
    KINDS,
    THRESHOLD,
    PlayedFactors,
    adjoint,
    cholesky_ratio,
    exchanged,
    lu_ratio,
    matrix,
    normal,
    positive,
    qr_ratios,
    solve_ratio,
)

import mansard as ms
import mansard.linalg.positive
import mansard.linalg.systems
import mansard.settings
from mansard import families, testing
from mansard.api import call, factor_plan, factor_swaps
from mansard.api.arrays import KINDS as LIBRARIES
from mansard.api.factor_blocked import HOW, Steps
from mansard.api.factor_hold import plan_factorization
from mansard.api.factor_task import Task

linalg = ms.linalg
NUMPY = LIBRARIES["numpy"]


@pytest.fixture(autouse=True)
def no_plans() -> None:
    factor_plan._PLANS.clear()
    factor_plan._QUICK.clear()


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What does not ask for a backend is answered by libraries: nothing is compiled."""
    monkeypatch.setenv("MANSARD_BACKEND", "reference")
    mansard.settings.reread()
    yield
    monkeypatch.undo()
    mansard.settings.reread()


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedFactors:
    """Kernels that LAPACK plays, for whatever families there are."""
    found = PlayedFactors()
    added = tuple(importlib.import_module(f"mansard.families.{name}") for name in ("cholesky", "lu", "qr"))
    known = tuple(family for family in families.FAMILIES if family not in added)
    monkeypatch.setattr(families, "FAMILIES", (*known, *added))
    monkeypatch.setattr(call, "prepare", found)
    return found


def moved(array: Any, backend: str) -> Any:
    return testing.array_module(backend).array(array)


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


def definite(rng: Any, lead: tuple[int, ...], n: int, dtype: str = "float64") -> Any:
    A = normal(rng, (*lead, n, n), dtype)
    return A @ adjoint(A) + n * np.eye(n, dtype=dtype)


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


# ---- forms of batches -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("libraries")
def test_shapes_and_empty_problems() -> None:
    for lead in ((), (3,), (2, 0), (0, 3)):
        for n in (0, 1, 3):
            A, B = np.ones((*lead, n, n)) + np.eye(n), np.ones((*lead, n, 2))
            assert linalg.cholesky(A).shape == np.linalg.cholesky(A).shape
            assert linalg.solve(A, B).shape == np.linalg.solve(A, B).shape
            assert linalg.inv(A).shape == A.shape and np.allclose(linalg.det(A), np.linalg.det(A))
            assert np.shape(linalg.det(A)) == np.shape(np.linalg.det(A))
            for found, wanted in zip(linalg.slogdet(A), np.linalg.slogdet(A), strict=True):
                assert np.shape(found) == np.shape(wanted) and np.allclose(found, wanted)
            lu, piv, info = linalg.lu_factor_ex(A)
            assert (lu.shape, piv.shape, info.shape) == (A.shape, (*lead, n), lead)
            assert linalg.lu_solve((lu, piv), B).shape == linalg.cho_solve((A, True), B).shape == B.shape
            assert linalg.solve(A, np.ones((n, 0))).shape == (*lead, n, 0)
    for shape in ((0, 3), (3, 0), (2, 0, 3), (2, 3, 0), (0, 3, 2), (0, 0)):
        for mode in ("reduced", "complete", "raw", "r"):
            found, wanted = linalg.qr(np.zeros(shape), mode), np.linalg.qr(np.zeros(shape), mode)
            for one, other in zip(found, wanted, strict=True) if mode != "r" else ((found, wanted),):
                assert one.shape == other.shape and (one == other).all(), (shape, mode)
    assert linalg.lstsq(np.zeros((0, 2)), np.zeros((0, 1))).x.tolist() == [[0], [0]]


@pytest.mark.usefixtures("libraries")
def test_names_of_results() -> None:
    A = np.diag([2.0, 3.0])
    assert linalg.qr(A).Q.shape == linalg.qr(A).R.shape == (2, 2)
    assert linalg.slogdet(A).sign == 1 and np.isclose(linalg.slogdet(A).logabsdet, np.log(6))
    assert type(linalg.det(A)) is np.float64


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("libraries")
def test_strides_and_broadcasting(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lead = tuple(rng.integers(1, 4, rng.integers(0, 4)).tolist())
    S, right = definite(rng, lead, 3, "complex128"), normal(rng, (*lead, 3, 2), "complex128")
    A, B = arranged(rng, S), arranged(rng, right)
    assert np.allclose(linalg.cholesky(A), np.linalg.cholesky(S))
    assert np.allclose(linalg.solve(A, B), np.linalg.solve(S, right))
    out = arranged(rng, np.zeros_like(right))
    assert linalg.solve(A, B, out=out) is out and np.allclose(out, np.linalg.solve(S, right))
    assert np.allclose(linalg.qr(A).R, np.linalg.qr(S).R)
    if lead:
        one, many = S[(0,) * len(lead)], right[:1]
        assert np.allclose(linalg.solve(one, right), np.linalg.solve(one, right))
        assert np.allclose(linalg.solve(S, many), np.linalg.solve(S, many))
        info = linalg.solve_ex(one, right)[1]
        assert info.shape == lead and not info.any()


@pytest.mark.usefixtures("libraries")
def test_results_in_place() -> None:
    rng = np.random.default_rng(11)
    S, B = definite(rng, (4,), 3), normal(rng, (4, 3, 3), "float64")
    for function, wanted in (
        (linalg.cholesky, np.linalg.cholesky(S)),
        (linalg.inv, np.linalg.inv(S)),
        (lambda a, out: linalg.lu_factor(a, out=out)[0], np.stack([scipy.linalg.lu_factor(a)[0] for a in S])),
    ):
        place = S.copy()
        assert function(place, out=place) is place and np.allclose(place, wanted), function
        both = np.concatenate([S[:1], S])  # out and a overlap, but are not the same
        assert np.allclose(function(both[1:], out=both[:-1]), wanted)
    for place in (S.copy(), B.copy()):
        given = (place, B) if place[0, 0, 0] == S[0, 0, 0] else (S, place)
        assert linalg.solve(*given, out=place) is place and np.allclose(place, np.linalg.solve(S, B))
    with pytest.raises(ValueError, match=r"out has shape \(4, 2, 2\), the result \(4, 3, 3\)"):
        linalg.cholesky(S, out=np.empty((4, 2, 2)))
    with pytest.raises(TypeError, match="out has dtype float32, the result float64"):
        linalg.cholesky(S, out=np.empty((4, 3, 3), "float32"))
    frozen = np.empty((4, 3, 3))
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        linalg.cholesky(S, out=frozen)


@pytest.mark.usefixtures("libraries")
def test_lists() -> None:
    rng = np.random.default_rng(12)
    S, B = definite(rng, (4,), 3), normal(rng, (4, 3, 2), "float64")
    some, rights = [arranged(rng, one) for one in S], list(B)
    found = linalg.cholesky(some)
    assert isinstance(found, list) and np.allclose(found, np.linalg.cholesky(S))
    lu, piv, info = linalg.lu_factor_ex(some)
    assert isinstance(lu, list) and isinstance(piv, list) and info.shape == (4,)
    for result in (linalg.solve(some, rights), linalg.lu_solve((lu, piv), rights), linalg.solve(S, rights)):
        assert isinstance(result, list) and np.allclose(result, np.linalg.solve(S, B))
    assert np.allclose(linalg.cho_solve((found, True), rights), np.linalg.solve(S, B))
    assert np.allclose(linalg.det(some), np.linalg.det(S)) and isinstance(linalg.det(some), np.ndarray)
    Q, R = linalg.qr(some)
    assert isinstance(Q, list) and np.allclose([q @ r for q, r in zip(Q, R, strict=True)], S)
    assert isinstance(linalg.qr(some, "r"), list)
    places = [np.empty((3, 3)) for _ in range(4)]
    assert linalg.cholesky(some, out=places) is places and np.allclose(places, np.linalg.cholesky(S))
    assert linalg.cholesky([]) == [] and linalg.solve([], []) == [] and linalg.det([]).shape == (0,)
    assert linalg.cholesky_ex([])[1].dtype == np.int32
    some[2] = -some[2]
    with pytest.raises(np.linalg.LinAlgError, match=r"^a\[2\] is not positive definite"):
        linalg.cholesky(some)
    with pytest.raises(ValueError, match=r"a\[1\] has shape \(2, 2\) and a\[0\] \(3, 3\).*ms.Ragged"):
        linalg.cholesky([np.eye(3), np.eye(2)])


@pytest.mark.usefixtures("libraries")
def test_ragged() -> None:
    rng = np.random.default_rng(13)
    sizes = [3, 1, 3, 0, 5, 1]
    S = [definite(rng, (), n) for n in sizes]
    B = [normal(rng, (n, k), "float64") for n, k in zip(sizes, (2, 1, 2, 1, 1, 3), strict=True)]
    a, b = ms.Ragged.from_list(S), ms.Ragged.from_list(B)
    wanted = [np.linalg.solve(s, right) for s, right in zip(S, B, strict=True)]

    def close(found: Any, expected: Any) -> bool:
        return isinstance(found, ms.Ragged) and all(map(np.allclose, found, expected)) and len(found) == len(sizes)

    L, info = linalg.cholesky_ex(a)
    assert close(L, [np.linalg.cholesky(s) for s in S]) and info.tolist() == [0] * 6
    assert close(linalg.solve(a, b), wanted) and close(linalg.cho_solve((L, True), b), wanted)
    lu, piv = linalg.lu_factor(a)
    assert [len(one) for one in piv] == sizes and close(linalg.lu_solve((lu, piv), b), wanted)
    assert close(linalg.inv(a), list(map(np.linalg.inv, S))) and np.allclose(linalg.det(a), list(map(np.linalg.det, S)))
    Q, R = linalg.qr(b)
    assert all(np.allclose(q @ r, right) for q, r, right in zip(Q, R, B, strict=True))
    h, tau = linalg.qr(b, "raw")
    assert h.shapes == [one.T.shape for one in B] and [len(one) for one in tau] == [2, 1, 2, 0, 1, 1]
    assert np.allclose(h[0], np.linalg.qr(B[0], "raw")[0]) and np.allclose(tau[0], np.linalg.qr(B[0], "raw")[1])
    place = ms.Ragged.empty_like(a)
    assert linalg.cholesky(a, out=place) is place and close(place, [np.linalg.cholesky(s) for s in S])
    assert linalg.cholesky(a, out=a) is a and close(a, list(L))
    assert len(linalg.cholesky(ms.Ragged.empty([], []))) == 0
    a[4][...] = -1
    with pytest.raises(np.linalg.LinAlgError, match=r"^a\[4\] is not positive definite: its leading minor of order 1"):
        linalg.cholesky(a)
    with pytest.raises(TypeError, match="b is a ndarray: beside a Ragged, pass a Ragged"):
        linalg.solve(a, B[0])
    with pytest.raises(ValueError, match="a has 6 matrices and b 5: one for each is needed"):
        linalg.solve(a, b[:5])
    with pytest.raises(np.linalg.LinAlgError, match=r"has shape \(3, 2\): its last two dimensions must be square"):
        linalg.cholesky(b)


# ---- kernels, played ------------------------------------------------------------------------------------


def everything(S: Any, B: Any, outs: bool = False) -> dict[str, Any]:
    """Every operation that a kernel answers, with NumPy's results beside ours."""
    stack, rights = np.stack(list(S)), np.stack(list(B))
    found = {
        "cholesky": (linalg.cholesky(S, backend="emulated"), np.linalg.cholesky(stack)),
        "upper": (linalg.cholesky(S, upper=True, backend="emulated"), np.linalg.cholesky(stack, upper=True)),
        "solve": (linalg.solve(S, B, backend="emulated"), np.linalg.solve(stack, rights)),
        "pos": (linalg.solve(S, B, assume_a="pos", backend="emulated"), np.linalg.solve(stack, rights)),
        "inv": (linalg.inv(S, backend="emulated"), np.linalg.inv(stack)),
        "det": (linalg.det(S, backend="emulated"), np.linalg.det(stack)),
        "slogdet": (linalg.slogdet(S, backend="emulated")[1], np.linalg.slogdet(stack)[1]),
        "r": (linalg.qr(S, "r", backend="emulated"), np.linalg.qr(stack, "r")),
        "lstsq": (linalg.lstsq(S, B, driver="qr", backend="emulated").x, np.linalg.solve(stack, rights)),
    }
    for mode in ("reduced", "complete", "raw"):
        for i in (0, 1):
            found[f"{mode}{i}"] = (linalg.qr(B, mode, backend="emulated")[i], np.linalg.qr(rights, mode)[i])
    lu, piv = linalg.lu_factor(B, backend="emulated")
    for i, (one, pivots) in enumerate(zip(lu, piv, strict=True)):
        wanted = scipy.linalg.lu_factor(rights[i])
        found[f"lu{i}"], found[f"piv{i}"] = (one, wanted[0]), (pivots, wanted[1])
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_kernel_gets_what_it_is_told(played: PlayedFactors, dtype: str) -> None:
    rng = np.random.default_rng(14)
    S, B = definite(rng, (5,), 3, dtype), normal(rng, (5, 3, 2), dtype)
    for form in ("stack", "strided", "list", "turned", "steps"):
        if form == "stack":
            given = S, B
        elif form == "strided":
            given = np.full((5, 4, 7), 9, dtype)[:, :3, :3], np.full((5, 3, 5), 9, dtype)[:, :, 2:4]
            given[0][...], given[1][...] = S, B
        elif form == "list":
            given = list(S.copy()), list(B.copy())
        elif form == "turned":
            given = (np.ascontiguousarray(one.swapaxes(-1, -2)).swapaxes(-1, -2) for one in (S, B))
        else:
            given = np.repeat(np.repeat(S, 2, -1), 2, -2)[:, ::2, ::2], np.repeat(B, 2, 0)[::2]
        before = played.launches
        for name, (found, wanted) in everything(*given).items():
            assert np.allclose(found, wanted, rtol=1e-3, atol=1e-4), (form, name)
        assert played.launches > before + 12, form
    stacked = {(problem.stack_a, problem.layout_a) for problem in played.problems}
    assert {
        ("packed", "row"),
        ("packed", "col"),
        ("pointers", "row"),
        ("strided", "row"),
        ("strided", "any"),
    } <= stacked


def test_a_kernel_for_batches_without_a_single_step(played: PlayedFactors) -> None:
    rng = np.random.default_rng(15)
    S = definite(rng, (4, 2, 3), 3)
    turned = np.ascontiguousarray(S.transpose(1, 0, 2, 3, 4)).transpose(1, 0, 2, 3, 4)
    bad = turned.copy()
    bad[2, 1, 0, 1, 1] = -1
    _, info = linalg.cholesky_ex(bad.transpose(1, 0, 2, 3, 4), backend="emulated")
    assert np.argwhere(info).tolist() == [[1, 2, 0]] and played.launches == 1
    assert played.problems[0].stack_a == "pointers" and played.problems[0].BATCH == 24
    place = np.zeros((4, 2, 3, 3, 3)).transpose(1, 0, 2, 3, 4)
    linalg.cholesky(turned.transpose(1, 0, 2, 3, 4), out=place, backend="emulated")
    assert np.allclose(place, np.linalg.cholesky(S.transpose(1, 0, 2, 3, 4))) and played.launches == 2


def test_a_kernel_in_place_and_beside(played: PlayedFactors) -> None:
    rng = np.random.default_rng(16)
    S, B = definite(rng, (3,), 4), normal(rng, (3, 4, 2), "float64")
    place = S.copy()
    linalg.cholesky(place, out=place, backend="emulated")
    assert np.allclose(place, np.linalg.cholesky(S)) and played.launches == 1
    for given, place in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
        both = np.concatenate([S[:1], S, S[-1:]])[1:] if given.start is None else np.concatenate([S[:1], S])
        assert np.allclose(linalg.cholesky(both[given], out=both[place], backend="emulated"), np.linalg.cholesky(S))
    right = B.copy()
    assert linalg.solve(S, right, out=right, backend="emulated") is right
    assert np.allclose(right, np.linalg.solve(S, B))
    one = np.broadcast_to(B[0], B.shape)  # a broadcast operand is copied
    assert np.allclose(linalg.solve(S, one, backend="emulated"), np.linalg.solve(S, one))
    ragged = ms.Ragged.from_list([S[0], 2 * np.eye(2), S[1]])
    before = played.launches
    assert np.allclose(linalg.inv(ragged, backend="emulated")[2], np.linalg.inv(S[1]))
    assert played.launches == before + 2  # one per size
    assert played.problems[-1].stack_f == "pointers"


def test_later_calls_ask_no_questions(played: PlayedFactors, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(24)
    S, B = definite(rng, (3,), 4, "complex128"), normal(rng, (3, 4, 2), "complex128")
    calls = {
        "cholesky": lambda a, b: linalg.cholesky(a, backend="emulated"),
        "lu": lambda a, b: linalg.lu_factor(a, backend="emulated"),
        "solve": lambda a, b: linalg.solve(a, b, backend="emulated"),
        "inv": lambda a, b: linalg.inv(a, backend="emulated"),
        "det": lambda a, b: linalg.det(a, backend="emulated"),
        "slogdet": lambda a, b: linalg.slogdet(a, backend="emulated"),
        "raw": lambda a, b: linalg.qr(b, "raw", backend="emulated"),
        "r": lambda a, b: linalg.qr(a, "r", backend="emulated"),
        "reduced": lambda a, b: linalg.qr(b, backend="emulated"),
    }
    first = {name: function(S, B) for name, function in calls.items()}
    monkeypatch.setattr(factor_plan, "planned", None)  # nobody asks for it again
    launches = played.launches
    for name, function in calls.items():
        again, other = function(S, B), function(2 * S, 2 * B)
        results = ((x if isinstance(x, tuple) else (x,)) for x in (first[name], again, other))
        for one, two, three in zip(*results, strict=True):
            assert one.shape == two.shape and one.strides == two.strides and (one == two).all(), name
            assert three is not two
        assert type(again) is type(first[name])
    assert played.launches == launches + 2 * len(calls)
    assert np.allclose(calls["cholesky"](4 * S, B), 2 * first["cholesky"])
    with pytest.raises(np.linalg.LinAlgError, match=r"^a\[0\] is not positive definite"):
        calls["cholesky"](-S, B)


def test_later_calls_with_places_look_for_overlaps(played: PlayedFactors, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(26)
    S, B = definite(rng, (3,), 4), normal(rng, (3, 4, 2), "float64")
    wanted, solution = np.linalg.cholesky(S), np.linalg.solve(S, B)
    calls = []

    def watched(*arguments: Any) -> Any:
        calls.append(factor_plan.quick(*arguments))
        return calls[-1]

    monkeypatch.setattr(mansard.linalg.positive, "quick", watched)
    monkeypatch.setattr(mansard.linalg.systems, "quick", watched)
    for known in (False, True, True):
        place, X = np.zeros_like(S), np.zeros_like(B)
        assert linalg.cholesky(S, out=place, backend="emulated") is place and np.allclose(place, wanted)
        assert linalg.solve(S, B, out=X, backend="emulated") is X and np.allclose(X, solution)
        assert [one is not None for one in calls] == [known, known]
        calls.clear()
    wide = np.concatenate([S, S[:1]])
    for given, place, known in ((wide[:3], wide[:3], True), (wide[:3], wide[1:], False)):
        wide[:3] = S
        assert np.allclose(linalg.cholesky(given, out=place, backend="emulated"), wanted)
        assert (calls.pop() is not None) == known
    right = B.copy()
    assert np.allclose(linalg.solve(S, right, out=right, backend="emulated"), solution) and calls.pop() is None


def test_plans(played: PlayedFactors) -> None:
    rng = np.random.default_rng(25)
    S, B = definite(rng, (3,), 4), normal(rng, (3, 4, 2), "float64")
    plan = plan_factorization("cholesky", S, None, None, "emulated")
    assert plan.problem.operation == "cholesky" and plan.problem.want == "factor" and plan.choice.config == "played"
    factors, info = plan(S)
    assert np.allclose(factors, np.linalg.cholesky(S)) and not info.any()
    with pytest.raises(ValueError, match="A differs in shape"):
        plan(S[:2])
    with pytest.raises(ValueError, match="cholesky has neither alpha nor beta"):
        plan(S, alpha=2.0)
    place = S.copy()
    held = plan_factorization("cholesky", place, None, place, "emulated")
    assert held(place, out=place)[0] is place and np.allclose(place, factors)
    x, info = plan_factorization("lu", S, B, None, "emulated", want="solve")(S, B)
    assert np.allclose(x, np.linalg.solve(S, B)) and not info.any()
    assert len(plan_factorization("qr", B, None, None, "emulated")(B)) == 2
    played.widest = 2
    assert "blocks" in plan_factorization("lu", S, None, None, "emulated")._what()
    with pytest.raises(ValueError, match="want='inverse' is nothing that qr gives"):
        plan_factorization("qr", S, None, None, "emulated", want="inverse")
    with pytest.raises(TypeError, match="right-hand sides"):
        plan_factorization("lu", S, B, None, "emulated")


def test_a_refused_system_goes_through_its_factors(played: PlayedFactors) -> None:
    rng = np.random.default_rng(17)
    played.refused = lambda problem: problem.want not in ("factor", "swap")  # type: ignore[method-assign]
    S, B = definite(rng, (3,), 4, "complex128"), normal(rng, (3, 4, 2), "complex128")
    assert np.allclose(linalg.solve(S, B, backend="emulated"), np.linalg.solve(S, B))
    assert {problem.want for problem in played.problems} == {"factor", "swap"}
    assert np.allclose(linalg.solve(S, B, assume_a="pos", backend="emulated"), np.linalg.solve(S, B))
    assert np.allclose(linalg.inv(list(S), backend="emulated"), np.linalg.inv(S))
    A = normal(rng, (8, 4, 4), "complex128")
    assert np.allclose(linalg.det(A, backend="emulated"), np.linalg.det(A))
    for found, wanted in zip(linalg.slogdet(A, backend="emulated"), np.linalg.slogdet(A), strict=True):
        assert np.allclose(found, wanted)
    S[1, :, 2] = 0
    assert linalg.solve_ex(S, B, backend="emulated")[1].tolist() == [0, 3, 0]
    assert linalg.slogdet(S, backend="emulated")[1][1] == -np.inf and linalg.det(S, backend="emulated")[1] == 0


def test_large_matrices_go_through_blocks(played: PlayedFactors, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(18)
    played.widest = 16
    S, B = definite(rng, (2,), 40), normal(rng, (2, 40, 3), "float64")
    assert cholesky_ratio(S, linalg.cholesky(S, backend="emulated")) < THRESHOLD
    assert max(problem.N for problem in played.problems) <= 16
    assert cholesky_ratio(S, adjoint(linalg.cholesky(S, upper=True, backend="emulated"))) < THRESHOLD
    A = normal(rng, (2, 40, 40), "float64")
    assert solve_ratio(A, linalg.solve(A, B, backend="emulated"), B) < THRESHOLD
    Q, R = linalg.qr(A, backend="emulated")
    assert max(qr_ratios(A, Q, R)) < THRESHOLD
    assert np.allclose(linalg.lstsq(A, B, driver="qr", backend="emulated").x, np.linalg.solve(A, B))
    monkeypatch.setitem(factor_plan.LIBRARY_FROM, "cuda", {"cholesky": 32, "lu": 32, "qr": 32})
    factor_plan._PLANS.clear()
    plan = factor_plan.plan_factor(Task("cholesky"), NUMPY, S, None, {}, "emulated")
    assert plan.means == "blocks"  # who asks for a backend gets it
    monkeypatch.setenv("MANSARD_BACKEND", "emulated")
    mansard.settings.reread()
    try:
        assert factor_plan.plan_factor(Task("cholesky"), NUMPY, S, None, {}, None).means == "library"
    finally:
        monkeypatch.undo()
        mansard.settings.reread()


# ---- blocks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [*HOW, Steps((16, 4), leaf=4), Steps(leaf=8)], ids=str)
def test_steps_of_blocked_factorizations(how: Any) -> None:
    rng = np.random.default_rng(19)
    for shape, dtype in (((40, 40), "complex128"), ((45, 30), "float64"), ((30, 45), "float32")):
        A = normal(rng, (2, *shape), dtype)
        A[1, :, 7] = A[1, :, 3] * (shape[0] == 45)  # a zero column, or dependent ones
        found = factor_plan.staged(Task("lu"), A, how, "reference")
        assert lu_ratio(A, found["F"], found["PIVOTS"]) < THRESHOLD, shape
        wanted = [scipy.linalg.lapack.get_lapack_funcs(("getrf",), (one,))[0](one) for one in A]
        if shape[0] != 45:
            assert (found["PIVOTS"] == [one[1] for one in wanted]).all()
            assert found["INFO"].tolist() == [one[2] for one in wanted] == [0, 8]
        reduced = factor_plan.staged(Task("qr", "reduced"), A, how, "reference")
        assert max(qr_ratios(A, reduced["Q"], reduced["F"])) < THRESHOLD, shape
        raw, (h, tau) = factor_plan.staged(Task("qr", "raw"), A[:1], how, "reference"), np.linalg.qr(A[:1], "raw")
        assert np.allclose(raw["F"].swapaxes(-1, -2), h, atol=1e-3) and np.allclose(raw["TAU"], tau, atol=1e-3)
    S = definite(rng, (3,), 40, "complex128")
    S[1, 33, 33] = -1
    found = factor_plan.staged(Task("cholesky"), S, how, "reference")
    assert found["INFO"].tolist() == [0, 34, 0] and cholesky_ratio(S[::2], found["F"][::2]) < THRESHOLD
    assert (np.triu(found["F"][::2], 1) == 0).all()
    turned = factor_plan.staged(Task("cholesky", upper=True), S[::2], how, "reference")["F"]
    assert np.allclose(turned, found["F"][::2].conj().swapaxes(-1, -2)) and (np.tril(turned, -1) == 0).all()


def test_orders_of_rows() -> None:
    rng = np.random.default_rng(20)
    for count, rows in ((1, 1), (1, 4), (5, 9), (8, 8), (7, 7)):
        pivots = np.stack([[rng.integers(i, rows) for i in range(count)] for _ in range(6)]).astype(np.int32)
        X = rng.integers(0, 100, (6, rows, 2)).astype(float)
        wanted = np.stack([exchanged(x, p) for x, p in zip(X, pivots, strict=True)])
        for order in (factor_swaps.order_of, factor_swaps.order_by_pairs):
            assert (factor_swaps.permuted(NUMPY, order(NUMPY, pivots, rows), X) == wanted).all(), order
        for how in ("rows", "gather"):
            place = X.copy()
            factor_swaps.Swaps(NUMPY, how, lambda pivots, place: False).apply(pivots, [place[..., :1], place[..., 1:]])
            assert (place == wanted).all(), how


# ---- libraries ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("libraries")
def test_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(21)
    S, B = definite(rng, (3,), 4, "complex128"), normal(rng, (3, 4, 2), "complex128")
    a, b = torch.from_numpy(S), torch.from_numpy(B)
    L, info = linalg.cholesky_ex(a)
    assert isinstance(L, torch.Tensor) and info.dtype == torch.int32 and np.allclose(L.numpy(), np.linalg.cholesky(S))
    lazy = torch.from_numpy(S.conj()).conj()
    assert np.allclose(linalg.cholesky(lazy).numpy(), L.numpy())
    assert np.allclose(linalg.solve(lazy, b).numpy(), np.linalg.solve(S, B))
    lu, piv = linalg.lu_factor(a)
    assert piv.dtype == torch.int32 and np.allclose(
        linalg.lu_solve((lu, piv), b, 2).numpy(), np.linalg.solve(adjoint(S), B)
    )
    Q, R = linalg.qr(a.mT)
    assert np.allclose((Q @ R).numpy(), S.swapaxes(-1, -2))
    assert np.allclose(linalg.lstsq(a, b).x.numpy(), np.linalg.solve(S, B))
    assert linalg.det(a).shape == (3,) and isinstance(linalg.slogdet(a).logabsdet, torch.Tensor)
    assert isinstance(linalg.cholesky([a[0], a[1]])[1], torch.Tensor)
    ragged = ms.Ragged.from_list([a[0].clone(), torch.eye(2, dtype=a.dtype), a[1].clone()])
    assert linalg.det(ragged).shape == (3,) and np.allclose(linalg.det(ragged)[1].item(), 1)
    found = factor_plan.staged(
        Task("lu"), torch.from_numpy(normal(rng, (2, 40, 40), "float64")), "classic", "reference"
    )
    assert found["PIVOTS"].dtype == torch.int32
    with pytest.raises(TypeError, match="a has dtype int64; supported are float32"):
        linalg.cholesky(torch.eye(2, dtype=torch.int64))
    with pytest.raises(TypeError, match="a has dtype complex128 and b complex64: convert one of them"):
        linalg.solve(a, b.to(torch.complex64))


def test_the_array_library_s_own_factorizations() -> None:
    """What answers on GPUs where nothing of ours does, on PyTorch's CPU tensors."""
    torch = pytest.importorskip("torch")
    from mansard.api import arrays, factor_lapack, factor_library

    rng = np.random.default_rng(22)
    for dtype in ("float64", "complex64"):
        S, B = definite(rng, (3,), 4, dtype), normal(rng, (3, 4, 2), dtype)
        tall, right = normal(rng, (3, 6, 4), dtype), normal(rng, (3, 6, 2), dtype)
        kind = arrays.kind_of(torch.zeros(1), "a")
        for task in (
            Task("cholesky"), Task("cholesky", upper=True), Task("cholesky", "solve"), Task("cholesky", "solve", True),
            Task("lu"), Task("lu", "solve"), Task("lu", "inverse"), Task("lu", "determinant"), Task("lu", "logdet"),
            Task("qr", "raw"), Task("qr", "r"), Task("qr", "reduced"), Task("qr", "complete"), Task("qr", "solve"),
        ):  # fmt: skip
            given = (tall, right) if task.family == "qr" else (S, B)
            wanted = factor_lapack.answer(task, *given)
            found = factor_library.answer(kind, task, *map(torch.from_numpy, given))
            assert set(task.parts) <= set(found)
            for part in task.parts:
                assert np.allclose(found[part].numpy(), wanted[part], rtol=1e-3, atol=1e-4), (task, part)
        for one, other in zip(
            factor_library.by_singular_values(kind, torch.from_numpy(tall), torch.from_numpy(right), 1e-6),
            factor_lapack.by_singular_values(tall, right, 1e-6), strict=True,
        ):  # fmt: skip
            assert np.allclose(one.numpy(), other, rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("libraries")
def test_jax() -> None:
    jax = pytest.importorskip("jax")
    S = definite(np.random.default_rng(23), (3,), 2, "float32")
    L, info = linalg.cholesky_ex(jax.numpy.asarray(S))
    assert isinstance(L, jax.Array) and isinstance(info, jax.Array) and np.allclose(L, np.linalg.cholesky(S), rtol=1e-5)
    x = linalg.solve(jax.numpy.asarray(S), jax.numpy.ones(2))
    assert x.shape == (3, 2) and np.allclose(x, np.linalg.solve(S, np.ones(2)), rtol=1e-4)
    with pytest.raises(TypeError, match="out is a JAX array"):
        linalg.cholesky(jax.numpy.asarray(S), out=jax.numpy.asarray(S))


@pytest.mark.usefixtures("libraries")
def test_dtypes_are_promoted_as_numpy_does() -> None:
    A = np.array([[2, 1], [1, 3]])
    for dtype in ("int8", "int64", "bool", "float32", "float64"):
        for other in ("int32", "float32", "complex64", "float64"):
            a, b = (A + (dtype == "bool")).astype(dtype) if dtype != "bool" else np.eye(2, dtype=bool), A.astype(other)
            wanted = np.linalg.solve(a, b)
            assert linalg.solve(a, b).dtype == wanted.dtype and np.allclose(linalg.solve(a, b), wanted, rtol=1e-5)
    assert linalg.cholesky(A).dtype == np.float64 and linalg.det([A, A]).dtype == np.float64
    for function in (linalg.cholesky, linalg.inv, linalg.qr, linalg.lu_factor):
        with pytest.raises(TypeError, match="a has dtype float16; supported are"):
            function(A.astype("float16"))


def test_bad_input_by_name() -> None:
    error = np.linalg.LinAlgError
    for function in (linalg.cholesky, linalg.inv, linalg.det, linalg.slogdet, linalg.cholesky_ex):
        with pytest.raises(error, match=r"^a has shape \(3, 2\): its last two dimensions must be square"):
            function(np.ones((3, 2)))
        with pytest.raises(error, match=r"^a has shape \(3,\): a matrix or a stack of matrices is needed"):
            function(np.ones(3))
    with pytest.raises(error, match=r"^a has shape \(3,\)"):
        linalg.qr(np.ones(3))
    with pytest.raises(ValueError, match="mode='full' is not one of 'reduced'"):
        linalg.qr(np.eye(2), "full")
    with pytest.raises(ValueError, match="a has 3 rows and b 2: both need the same number"):
        linalg.solve(np.eye(3), np.ones(2))
    with pytest.raises(ValueError, match="lu has 3 rows and b 2"):
        linalg.lu_solve(linalg.lu_factor(np.eye(3)), np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"piv has shape \(2,\), and lu \(3, 3\): one pivot per row is needed"):
        linalg.lu_solve((np.eye(3), np.zeros(2, np.int32)), np.ones(3))
    with pytest.raises(TypeError, match="piv has dtype float64: integers are needed"):
        linalg.lu_solve((np.eye(3), np.zeros(3)), np.ones(3))
    with pytest.raises(ValueError, match="c has 3 rows and b 2"):
        linalg.cho_solve((np.eye(3), True), np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"a has leading dimensions \(2,\) and b \(4,\): they do not broadcast"):
        linalg.solve(np.stack([np.eye(3)] * 2), np.ones((4, 3, 2)))
    with pytest.raises(ValueError, match="trans=3 is not one of"):
        linalg.lu_solve(linalg.lu_factor(np.eye(3)), np.ones(3), 3)
    with pytest.raises(ValueError, match="assume_a='sym' is not one of"):
        linalg.solve(np.eye(2), np.ones(2), assume_a="sym")
    with pytest.raises(ValueError, match="driver='gels' is not one of"):
        linalg.lstsq(np.eye(2), np.ones(2), driver="gels")
    with pytest.raises(TypeError, match=r"a is a builtins\.str"):
        linalg.solve("a", np.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linalg.lu_factor(np.eye(3))


def test_doctests() -> None:
    for name, least in (("positive", 7), ("lu", 14), ("orthogonal", 6), ("systems", 9)):
        failures, tried = doctest.testmod(importlib.import_module(f"mansard.linalg.{name}"))
        assert tried >= least and failures == 0
