"""Small systems with given factors on NumPy arrays: one call of LAPACK per matrix, and nothing is compiled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.linalg

import mansard as ms
from mansard import settings
from mansard.compile import cxx
from mansard.operations.factor import by_factors
from mansard.operations.plans import PLANS
from mansard.plan.problem import DTYPES

LEADS = ((), (1,), (2,), (1, 2))


@pytest.fixture(autouse=True)
def as_users(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Little work goes to the library, as users have it; a compilation fails the test."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a kernel is compiled")

    monkeypatch.delenv("MANSARD_LIBRARY_BELOW", raising=False)
    settings.reread()
    PLANS.forget()
    monkeypatch.setattr(cxx, "_compile", refuse)
    yield
    monkeypatch.undo()
    settings.reread()
    PLANS.forget()


def unit_triangles(lead: tuple[int, ...], n: int, dtype: str) -> np.ndarray:
    """Factors of small integers with ones on the diagonal: solutions are integers, and exact in any order."""
    rng = np.random.default_rng(n)
    F = np.asarray(rng.integers(-1, 2, (*lead, n, n))).astype(dtype)
    if dtype.startswith("complex"):
        F = F + (1j * rng.integers(-1, 2, F.shape)).astype(dtype)
    F[..., range(n), range(n)] = 1
    return F


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", LEADS, ids=str)
def test_lu_solve_is_exact(lead: tuple[int, ...], dtype: str) -> None:
    n = 5
    F = unit_triangles(lead, n, dtype)
    pivots = np.broadcast_to(np.array([2, 1, 4, 3, 4], np.int32), (*lead, n)).copy()
    P = np.eye(n)
    for i, other in enumerate((2, 1, 4, 3, 4)):
        P[[i, other]] = P[[other, i]]
    A = P.T @ (np.tril(F, -1) + np.eye(n)) @ np.triu(F)
    X = np.arange(2.0 * n).reshape(n, 2).astype(dtype) + np.zeros((*lead, 1, 1), dtype)
    for trans, op in enumerate((A, A.swapaxes(-1, -2), A.swapaxes(-1, -2).conj())):
        B = np.ascontiguousarray((op @ X).astype(dtype))
        place = np.full((*X.shape[:-1], 4), np.nan, dtype)[..., ::2]
        for _ in range(2):  # the call that looks closely, and a later one
            assert by_factors.answers_for(F, B)
            assert (ms.linalg.lu_solve((F, pivots), B, trans) == X).all()
            assert ms.linalg.lu_solve((F, pivots), B, trans, out=place) is place and (place == X).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [True, False])
def test_cho_solve_is_exact_and_reads_one_triangle(lower: bool, dtype: str) -> None:
    C = np.tril(unit_triangles((3,), 6, dtype))
    H = C @ C.swapaxes(-1, -2).conj()
    X = np.arange(18.0).reshape(3, 6, 1).astype(dtype)
    B, noise = H @ X, np.triu(np.full((6, 6), np.nan), 1).astype(dtype)
    factor = C + noise if lower else np.ascontiguousarray((C + noise).swapaxes(-1, -2).conj())
    for _ in range(2):
        assert (ms.linalg.cho_solve((factor, lower), B) == X).all()
        inside = B.copy()
        assert ms.linalg.cho_solve((factor, lower), inside, out=inside) is inside and (inside == X).all()


def test_answers_are_scipys() -> None:
    a = np.random.default_rng(3).standard_normal((35, 35))
    b = np.ones((35, 1))
    lu, piv = scipy.linalg.lu_factor(a)
    expected = scipy.linalg.lu_solve((lu, piv), b)
    assert (ms.linalg.lu_solve((lu, piv), b) == expected).all()
    assert (ms.linalg.lu_solve((np.ascontiguousarray(lu), piv.astype(np.int64)), b) == expected).all()


def test_pivots_and_places_are_checked() -> None:
    F, pivots, B = unit_triangles((2,), 3, "float64"), np.zeros((2, 3), np.int32), np.ones((2, 3, 1))
    for wrong in (3, -1):
        broken = pivots.copy()
        broken[1, 2] = wrong
        for _ in range(2):
            with pytest.raises(ValueError, match="no rows of lu"):
                ms.linalg.lu_solve((F, broken), B)
    for solve in (
        lambda out: ms.linalg.lu_solve((F, pivots), B, out=out),
        lambda out: ms.linalg.cho_solve((F, True), B, out=out),
    ):
        with pytest.raises(ValueError, match="out"):
            solve(out=np.empty((2, 3, 2)))
        with pytest.raises(TypeError, match="out has dtype"):
            solve(out=np.empty((2, 3, 1), np.float32))
    before = F.copy()
    with pytest.raises(ValueError, match="out"):
        ms.linalg.cho_solve((F, True), B, out=F[..., :1])
    assert (before == F).all()


def test_explain_says_so_and_a_backend_or_pins_decide_otherwise() -> None:
    F, pivots, B = np.eye(9), np.arange(9, dtype=np.int32), np.ones((9, 1))
    assert "LAPACK's getrs" in ms.plan("lu_solve", (F, pivots), B).explain()
    assert "LAPACK's potrs" in ms.plan("cho_solve", (F, True), B).explain()
    assert by_factors.answers_for(F, B)
    assert not by_factors.answers_for(F, B, backend="reference")
    with ms.pin(VARIANT="small"):
        assert not by_factors.answers_for(F, B)
    large = np.eye(by_factors.LARGEST + 1)
    assert not by_factors.answers_for(large, large)
