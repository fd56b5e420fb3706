"""Triangles of updates, products and systems with triangles: every form of batch gives what a stack gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ragged_cases import host
from sparing import rotated

import mansard as ms
from mansard import testing
from mansard.plan.problem import DTYPES

UPDATES = ("syrk", "herk", "syr2k", "her2k")
SHAPES = ((1, 1), (3, 5), (4, 4), (7, 2), (2, 9), (3, 5))


def integers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, shape).astype(dtype)
    return (values + 1j * rng.integers(-3, 4, shape)).astype(dtype) if dtype.startswith("complex") else values


def adjoint(one: Any, name: str) -> Any:
    turned = one.swapaxes(-1, -2)
    return turned.conj() if name.startswith("her") else turned


def expected(name: str, a: Any, b: Any, trans: str, alpha: complex) -> Any:
    """alpha op(a) op(b)', with two factors plus its transpose or adjoint."""
    single = name.endswith("rk")
    left, right = (one if trans == "N" else adjoint(one, name) for one in (a, a if single else b))
    product = alpha * (left @ adjoint(right, name))
    return product if single else product + adjoint(product, name)


def factors(name: str, a: Any, b: Any) -> tuple[Any, ...]:
    return (a,) if name.endswith("rk") else (a, b)


def moved(array: Any, backend: str) -> Any:
    return testing.array_module(backend).asarray(array)


# ---- interleaved ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trans", ["N", "T"])
@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_updates_of_interleaved_batches(dtype: str, name: str, trans: str, backend: str) -> None:
    trans = "C" if trans == "T" and name.startswith("her") else trans
    A, B, C = (integers((3, 7, *shape), dtype, seed) for seed, shape in enumerate(((4, 3), (4, 3), (4, 4))))
    A, B = (A, B) if trans == "N" else (A.swapaxes(-1, -2).copy(), B.swapaxes(-1, -2).copy())
    a, b, out = (ms.interleave(moved(one, backend), 4) for one in (A, B, C))
    update, wanted = getattr(ms.blas, name), expected(name, A, B, trans, 1.0)
    found = update(*factors(name, a, b), trans=trans, backend=backend)
    assert isinstance(found, ms.Interleaved) and found.lanes == 4
    assert (host(ms.deinterleave(found)) == wanted).all()
    assert (host(found.buffer)[-1, :, :, 1:] == 0).all()  # matrices that do not exist
    assert update(*factors(name, a, b), beta=2.0, uplo="U", trans=trans, out=out, backend=backend) is out
    mask, before = np.triu(np.ones((4, 4), bool)), C.copy()
    if name.startswith("her"):
        before[..., range(4), range(4)] = before[..., range(4), range(4)].real
    assert (host(ms.deinterleave(out)) == np.where(mask, wanted + 2 * before, C)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", ["L", "R"])
def test_triangles_of_interleaved_batches(side: str, dtype: str, backend: str) -> None:
    A, B = integers((11, 4, 4), dtype, 1), integers((11, *((4, 3) if side == "L" else (3, 4))), dtype, 2)
    A[:, range(4), range(4)] = 1
    triangles = np.tril(A)
    wanted = triangles @ B if side == "L" else B @ triangles
    a, b = (ms.interleave(moved(one, backend), 8) for one in (A, B))
    product = ms.blas.trmm(a, b, side=side, backend=backend)
    assert (host(ms.deinterleave(product)) == wanted).all()
    assert (host(ms.deinterleave(ms.blas.trsm(a, product, side=side, check=True, backend=backend))) == B).all()
    assert ms.blas.trmm(a, b, side=side, out=b, backend=backend) is b  # in its place
    assert (host(ms.deinterleave(b)) == wanted).all()
    one = ms.blas.trmm(moved(A[3], backend), product, side=side, backend=backend)  # one triangle for all
    assert (host(ms.deinterleave(one)) == (triangles[3] @ wanted if side == "L" else wanted @ triangles[3])).all()


def test_interleaved_torch_tensors_count_as_written() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, out = (ms.interleave(torch.ones((9, 2, 2))) for _ in range(2))
    version = out.buffer._version
    ms.blas.syrk(x, out=out)
    assert out.buffer._version > version and bool((ms.deinterleave(out) == torch.tensor([[2.0, 1], [2, 2]])).all())


X = ms.interleave(np.ones((9, 3, 2)))
SQUARE = ms.interleave(np.ones((9, 3, 3)))


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (lambda: ms.blas.syrk(X, out=np.ones((9, 3, 3))), TypeError, "out is a ndarray"),
        (lambda: ms.blas.syrk(np.ones((9, 3, 2)), out=SQUARE), TypeError, "beside an Interleaved"),
        (lambda: ms.blas.syrk(X, out=X), ValueError, r"out has shape \(9, 3, 2\), the result \(9, 3, 3\)"),
        (lambda: ms.blas.syrk(X, beta=1.0), ValueError, "pass out"),
        (lambda: ms.blas.syrk(X, alpha=np.ones(9)), TypeError, "one number each for an Interleaved"),
        (lambda: ms.blas.syr2k(X, SQUARE), ValueError, "both need the same"),
        (lambda: ms.blas.trmm(SQUARE, np.ones((9, 3, 2))), TypeError, "beside an Interleaved"),
        (lambda: ms.blas.trmm(X, X), ValueError, "a triangular matrix is square"),
        (lambda: ms.blas.trmm(SQUARE, ms.interleave(np.ones((9, 3, 2)), 4)), ValueError, "interleave both alike"),
        (lambda: ms.blas.trsm(ms.interleave(np.zeros((9, 3, 3))), X, check=True), np.linalg.LinAlgError, "a"),
    ],
)
def test_errors_of_interleaved_batches(wrong: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        wrong()


# ---- matrices of different shapes -------------------------------------------------------------------------


@rotated(3)
@pytest.mark.parametrize("name", ["syr2k", "her2k"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trans", ["N", "T"])
def test_rank_2k_of_different_shapes(trans: str, dtype: str, name: str) -> None:
    """Lists and Ragged batches, with and without `out`: exactly symmetric, and one triangle alone."""
    trans = "C" if trans == "T" and name == "her2k" else trans
    alpha = 2.0 - 1j if dtype.startswith("complex") else 2.0
    A, B = ([integers(shape, dtype, 10 * seed + i) for i, shape in enumerate(SHAPES)] for seed in (1, 2))
    wanted = [expected(name, a, b, trans, alpha) for a, b in zip(A, B, strict=True)]
    C = [integers(one.shape, dtype, 99) for one in wanted]
    update = getattr(ms.blas, name)
    found = update(A, B, alpha=alpha, trans=trans)
    batch = update(ms.Ragged.from_list(A), ms.Ragged.from_list(B), alpha=alpha, trans=trans)
    for one, other, right in zip(found, batch.to_list(), wanted, strict=True):
        assert (one == right).all() and (other == right).all()
    out, ragged = [one.copy() for one in C], ms.Ragged.from_list(C)
    assert update(A, B, alpha=alpha, beta=3.0, trans=trans, out=out)[0] is out[0]
    update(ms.Ragged.from_list(A), ms.Ragged.from_list(B), alpha=alpha, beta=3.0, trans=trans, out=ragged)
    for one, other, right, old in zip(out, ragged.to_list(), wanted, C, strict=True):
        before = old.copy()
        if name == "her2k":
            np.fill_diagonal(before, before.diagonal().real)
        place = np.where(np.tril(np.ones_like(old, bool)), right + 3 * before, old)
        assert (one == place).all() and (other == place).all()


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (lambda a, b: ms.blas.syr2k(a, b[:1]), ValueError, "one for each"),
        (lambda a, b: ms.blas.syr2k(a, [b[1], b[0]]), ValueError, r"a\[0\] has shape \(3, 2\) and b\[0\] \(1, 4\)"),
        (lambda a, b: ms.blas.syr2k(ms.Ragged.from_list(a), b), TypeError, "the same form of batch"),
        (lambda a, b: ms.blas.syr2k(a, np.ones((3, 2))), TypeError, "the same form of batch"),
        (
            lambda a, b: ms.blas.syr2k(ms.Ragged.from_list(a), ms.Ragged.from_list(b), alpha=np.ones(2)),
            TypeError,
            "alpha and beta are one number each",
        ),
    ],
)
def test_errors_of_different_shapes(wrong: Callable[[Any, Any], Any], error: type[Exception], text: str) -> None:
    one = [np.ones((3, 2)), np.ones((1, 4))]
    with pytest.raises(error, match=text):
        wrong(one, [2 * each for each in one])
