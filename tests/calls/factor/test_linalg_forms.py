"""`ms.linalg` on stacks, broadcast operands, lists and ragged batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from batched_cases import arranged
from linalg_cases import (
    by_libraries,  # noqa: F401
    definite,
    normal,
)

import mansard as ms
import mansard.linalg.positive
import mansard.linalg.systems
import mansard.settings

pytestmark = pytest.mark.usefixtures("no_plans")

linalg = ms.linalg


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
    several = linalg.cholesky([np.eye(3), 4 * np.eye(2)])
    assert np.array_equal(several[0], np.eye(3)) and np.array_equal(several[1], 2 * np.eye(2))


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
