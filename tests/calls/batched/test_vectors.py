"""Vectors with vectors, rank-2k updates: exact on small integers, in all forms, NumPy and PyTorch."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu

import mansard as ms
from mansard.errors import UnsupportedProblem

pytestmark = needs_cpu
DTYPES = ("float32", "float64", "complex64", "complex128")
UPDATES = (("syr2k", lambda one: one.swapaxes(-1, -2)), ("her2k", lambda one: one.conj().swapaxes(-1, -2)))


def integers(dtype: str, *shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    found = rng.integers(-3, 4, shape).astype(dtype)
    return found + 1j * rng.integers(-3, 4, shape).astype(found.real.dtype) if "complex" in dtype else found


def test_products_of_vectors() -> None:
    for dtype in ("float64", "complex64"):
        x, y = integers(dtype, 40, 7), integers(dtype, 40, 7, seed=1)
        assert (ms.blas.dot(x, y) == (x * y).sum(-1)).all() and ms.blas.dot(x, y).dtype == dtype
        assert (ms.blas.dot(x[:, ::2], y[0, ::2], conj=True) == (x[:, ::2].conj() * y[0, ::2]).sum(-1)).all()
        assert (ms.blas.ger(x, y[:, :3]) == x[:, :, None] * y[:, None, :3]).all()
        out = integers(dtype, 40, 7, 7, seed=2)
        expected = 2 * x[:, :, None] * y.conj()[:, None, :] + out
        assert ms.blas.ger(x, y, alpha=2.0, beta=1.0, conj=True, out=out) is out and (out == expected).all()
        assert (ms.blas.dot(list(x), list(y)) == (x * y).sum(-1)).all()
        assert (np.stack(ms.blas.ger(list(x), list(y))) == x[:, :, None] * y[:, None, :]).all()
    assert ms.blas.dot(x[0], y[0]) == (x[0] * y[0]).sum() and ms.blas.dot(x[:, :0], y[:, :0]).tolist() == [0] * 40


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_sums_exchanges_and_searches(library: str) -> None:
    made = np.asarray if library == "numpy" else pytest.importorskip("torch").from_numpy
    for dtype in DTYPES:
        x, y = integers(dtype, 5, 7), integers(dtype, 5, 7, seed=1)
        a, b = made(x.copy()), made(y.copy())
        factors = integers(dtype, 5, seed=2)
        assert (np.asarray(ms.blas.axpy(a, b, alpha=2.0)) == 2 * x + y).all()
        assert (np.asarray(ms.blas.axpy(a, b[0], alpha=made(factors))) == factors[:, None] * x + y[0]).all()
        assert ms.blas.axpy(a, b, alpha=-1.0, out=b) is b and (np.asarray(b) == y - x).all()
        assert ms.blas.scal(a, alpha=3.0, out=a) is a and (np.asarray(a) == 3 * x).all() and a.dtype == b.dtype
        ms.blas.swap(a, b)
        assert (np.asarray(a) == y - x).all() and (np.asarray(b) == 3 * x).all()
        size = abs(x.real) + abs(x.imag)
        assert (np.asarray(ms.blas.iamax(made(x))) == size.argmax(-1)).all()
    assert [one.tolist() for one in ms.blas.axpy([a, b], [b, a])] == [(a + b).tolist()] * 2
    pair = [made(np.array([1.0, -2.0])), made(np.array([0.0, np.nan, 9.0]))]
    assert np.asarray(ms.blas.iamax(pair)).tolist() == [1, 1]


@pytest.mark.parametrize(("name", "turn"), UPDATES)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_rank_2k(name: str, turn: Any, dtype: str) -> None:
    call, hermitian = getattr(ms.blas, name), name == "her2k"
    a, b = integers(dtype, 40, 4, 3), integers(dtype, 40, 4, 3, seed=1)
    for trans in ("N", "C" if hermitian else "T"):
        one, two = (a, b) if trans == "N" else (turn(a), turn(b))
        product = a @ turn(b)
        assert (call(one, two, trans=trans) == product + turn(product)).all()
        for uplo, counts in (("L", np.tri(4, dtype=bool)), ("U", np.tri(4, dtype=bool).T)):
            out = integers(dtype, 40, 4, 4, seed=2)
            expected = np.where(counts, 2 * product + turn(2 * product) + 3 * out, out)
            if hermitian:
                diagonal = np.arange(4)
                expected[:, diagonal, diagonal] = expected[:, diagonal, diagonal].real
            assert call(one, two, alpha=2.0, beta=3.0, uplo=uplo, trans=trans, out=out) is out
            assert (out == expected).all()
    assert all((x == y).all() for x, y in zip(call(list(a), list(b)), call(a, b), strict=True))


def test_complex_alpha_of_her2k() -> None:
    a, b = integers("complex128", 40, 3, 2), integers("complex128", 40, 3, 2, seed=1)
    half = (1 + 2j) * (a @ b.conj().swapaxes(1, 2))
    assert (ms.blas.her2k(a, b, alpha=1 + 2j) == half + half.conj().swapaxes(1, 2)).all()


def test_nothing_is_written_in_the_other_triangle_or_read_with_beta_zero() -> None:
    a = integers("float64", 40, 3, 2)
    out = np.full((40, 3, 3), np.nan)
    ms.blas.syr2k(a, a, out=out)
    assert np.isnan(out[:, 0, 1:]).all() and not np.isnan(np.tril(out[0], 0)[np.tri(3, dtype=bool)]).any()


X, Y = np.ones((3, 4)), np.ones((3, 4))


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (lambda: ms.blas.swap(X, np.ones((3, 4), "f4")), TypeError, "x is float64 .* and y float32"),
        (lambda: ms.blas.axpy(X, Y, alpha=1j), TypeError, "alpha must be real"),
        (lambda: ms.blas.axpy(X, Y, out=np.ones((2, 4))), ValueError, "the result"),
        (lambda: ms.blas.axpy(X, [Y]), TypeError, "list"),
        (lambda: ms.blas.scal(X, alpha=np.ones(3, "f4")), TypeError, "alpha is an array"),
        (lambda: ms.blas.scal(X.astype("i4"), alpha=2), UnsupportedProblem, "x has dtype int32"),
        (lambda: ms.blas.swap(X, X), ValueError, "x overlaps y"),
        (lambda: ms.blas.swap(X, Y[:2]), ValueError, "they must agree"),
        (lambda: ms.blas.iamax(np.ones((3, 0))), ValueError, "at least one entry"),
        (lambda: ms.blas.syr2k(X, Y[:, :3]), ValueError, "both need the same matrices"),
        (lambda: ms.blas.her2k(X, Y, beta=1j), TypeError, "beta must be real"),
        (lambda: ms.blas.syr2k(X, Y, trans="C"), ValueError, "trans='C'"),
        (lambda: ms.blas.dot(np.float64(1), X), TypeError, "x"),
        (lambda: ms.blas.dot(X, Y[:, :3]), ValueError, "x has vectors of 4 entries and y of 3"),
    ],
)
def test_errors_name_the_argument(wrong: Any, error: type, text: str) -> None:
    with pytest.raises((error, ValueError) if error is TypeError else error, match=text):
        wrong()


def test_jax_arrays_stay_jax_arrays() -> None:
    pytest.importorskip("jax")
    jnp = importlib.import_module("jax.numpy")
    x = jnp.arange(6.0).reshape(2, 3)
    assert ms.blas.iamax(x).tolist() == [2, 2] and ms.blas.axpy(x, x, alpha=2.0).tolist() == (3 * x).tolist()
