"""Triangular systems: inverted diagonal blocks, singular matrices, memory."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from batched_cases import DTYPES
from triangular_cases import (  # noqa: F401
    OPTIONS,
    PlayedSolver,
    applied,
    exact_case,
    host,
    in_small_blocks,
    moved,
    named,
    play_solver,
    wide,
)

import mansard as ms
import mansard.blas.triangular
import mansard.linalg.triangular
from mansard import testing
from mansard.kernels.batched.trsm import spec
from mansard.operations.batched import triangular_call
from mansard.plan import batched_rules

pytestmark = pytest.mark.usefixtures("no_plans")


# ---- inverted diagonal blocks -----------------------------------------------------------------------------


@pytest.mark.parametrize("n, dtype", [*product((3,), DTYPES), (75, "float64"), (40, "complex64")])
def test_inverted_blocks_are_within_their_own_bound(n: int, dtype: str) -> None:
    """With Y the computed inverse of a diagonal block D and c what it is multiplied with, |D Y - I| <= gamma |D| |Y|,
    and the product adds gamma |Y||c|: the residual of a block row is at most gamma (2 |D| |Y| |c| + |A| |x|)."""
    order = batched_rules.INVERTED
    A = testing.random_matrix(np, 4 * n, n, dtype, 1).reshape(4, n, n)
    A[:, range(n), range(n)] += 2
    A, B = np.tril(A).astype(dtype), testing.random_matrix(np, 4 * n, 3, dtype, 2).reshape(4, n, 3)
    A = (A * np.exp2(-np.arange(n)[:, None] % 7 - np.arange(n) / 4)).astype(dtype)  # far from the identity
    X = ms.blas.trsm(A, B, invert_diagonal=True)
    exact, x, b = wide(A), wide(X), wide(B)
    gamma = testing.gamma(dtype, n)
    residual, bound = abs(exact @ x - b), abs(exact) @ abs(x) + abs(b)
    for begin in range(0, n, order):
        rows = slice(begin, min(begin + order, n))
        block = exact[:, rows, rows]
        inverse = spec.reference(block, np.broadcast_to(np.eye(block.shape[-1], dtype=block.dtype), block.shape))
        right = abs(b[:, rows]) + abs(exact[:, rows, : rows.start]) @ abs(x[:, : rows.start])
        bound[:, rows] += 2 * abs(block) @ (abs(inverse) @ right)
    assert (residual <= 2 * gamma * bound).all()
    assert (ms.blas.trsm(A, B) != X).any(), "nothing was inverted"
    assert (
        f"blocks of order {order} are inverted"
        in triangular_call.plan_trsm(A, B, None, None, triangular_call.triangle(invert=True)).explain()
    )


@pytest.mark.parametrize("options", OPTIONS[::5], ids="".join)
def test_inverted_blocks_of_every_kind(options: Any, small_blocks: None, played: PlayedSolver) -> None:
    for backend in ("cpu", "emulated"):
        _, dirty, X, B = exact_case(np.random.default_rng(12), (3,), 7, 2, "complex128", options)
        how: Any = named(*options) | {"backend": backend, "invert_diagonal": True}
        assert np.allclose(ms.blas.trsm(dirty, B, alpha=2, **how), 2 * X, rtol=0, atol=1e-8)
        found = ms.blas.trsm(list(dirty), list(B), **how)
        assert all(np.allclose(one, x, rtol=0, atol=1e-8) for one, x in zip(found, X, strict=True))
    B = applied(np.eye(3), np.ones((5, 3, 2)), "L", "N")
    assert (ms.blas.trsm(np.eye(3), B, invert_diagonal=True) == B).all()  # one matrix, inverted once


# ---- singular matrices ------------------------------------------------------------------------------------


def test_singular_ones(backend: str) -> None:
    """As in BLAS: only the solution of the singular system suffers. With `check`, nothing is written."""
    _, dirty, X, B = exact_case(np.random.default_rng(13), (3, 20), 5, 2, "float64", OPTIONS[0])
    dirty[1, 17, 2, 2] = 0
    B[1, 17, 2] = 1
    a, b = moved(dirty, backend), moved(B, backend)
    found = host(ms.blas.trsm(a, b, backend=backend))
    assert not np.isfinite(found[1, 17, 2]).any()
    found[1, 17] = X[1, 17]
    assert (found == X).all()
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[1, 17\] is singular: entry 2"):
        ms.blas.trsm(a, b, out=b, check=True, backend=backend)
    assert (host(b) == B).all()
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[17\] is singular"):
        ms.linalg.solve_triangular(list(a[1]), list(b[1]), lower=True, check=True, backend=backend)
    with pytest.raises(np.linalg.LinAlgError, match="a is singular: entry 2"):
        ms.blas.trsv(a[1, 17], b[1, 17, :, 0], check=True, backend=backend)
    ms.blas.trsm(a, b, diag="U", check=True, backend=backend)
    assert (host(ms.blas.trsm(a[2], b[2], check=True, backend=backend)) == X[2]).all()


def test_singular_ones_elsewhere(small_blocks: None, played: PlayedSolver) -> None:
    for n, backend in ((3, "reference"), (9, "emulated")):
        _, dirty, X, B = exact_case(np.random.default_rng(14), (4,), n, 2, "float64", OPTIONS[0])
        dirty[2, 0, 0] = 0
        B[2, 0] = 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ms.blas.trsm(dirty, B, backend=backend)
        assert not np.isfinite(found[2, 0]).any() and (found[[0, 1, 3]] == X[[0, 1, 3]]).all()


# ---- memory -----------------------------------------------------------------------------------------------


def test_overlap(played: PlayedSolver) -> None:
    A, X = np.broadcast_to(np.eye(4), (6, 4, 4)), np.ones((6, 8, 4))
    assert (ms.blas.trsm(A, X[:, :4], out=X[:, 4:]) == 1).all()  # in one region, but apart
    assert ms.blas.trsm(A, X[:, :4], out=X[:, :4]) is not None
    for out in (X[:, 2:6], X[:, 3::-1], X[:, :4].swapaxes(1, 2)):
        with pytest.raises(ValueError, match=r"out overlaps b: .* or b itself"):
            ms.blas.trsm(A, X[:, :4], out=out)
    B = np.stack([np.eye(4)] * 6)
    with pytest.raises(ValueError, match="out overlaps a"):
        ms.blas.trsm(B, X[:, :4], out=B)
    many, square = list(np.ones((3, 2, 2))), list(np.stack([np.eye(2)] * 3))
    with pytest.raises(ValueError, match="out overlaps a"):
        ms.blas.trsm(square, many, out=square)
    for out in (many[::-1], [one.T for one in many]):
        with pytest.raises(ValueError, match="out overlaps b"):
            ms.blas.trsm(square, many, out=out)
    with pytest.raises(ValueError, match="an array twice"):
        ms.blas.trsm(square, many, out=[np.ones((2, 2))] * 3)
    with pytest.raises(ValueError, match="out overlaps"):
        ms.blas.trmm(A, X[:, :4], out=X[:, 2:6])


def test_nothing_is_copied(played: PlayedSolver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is handed the callers' own addresses, whatever the strides."""
    seen: list[int] = []
    real = played.triangular
    monkeypatch.setattr(
        played, "triangular", lambda p, o, pointer, s: (seen.append(pointer), real(p, o, pointer, s))[1]
    )
    A = np.stack([np.eye(3)] * 5).swapaxes(1, 2)[::-1]
    B, out = np.ones((5, 3, 4))[:, :, ::2], np.zeros((2, 3, 5)).T
    assert (ms.blas.trsm(A, B, out=out) == 1).all()
    assert seen == [one.__array_interface__["data"][0] for one in (A, B, out)]
