"""trsm, trsv, solve_triangular, trmm, gemv, syrk and herk of ragged batches, and of lists that differ in shape."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu, wanted
from ragged_cases import guarded, host, integers, numbers, outside, same

import mansard as ms
from mansard import testing
from mansard.errors import UnsupportedProblem
from mansard.operations.batched.triangular_call import triangle

ORDERS = [3, 0, 1, 2, 5, 4, 9, 8, 7, 17, 16, 15, 33, 31, 32]
SMALL = [3, 0, 1, 2, 4, 4, 3]  # one class of the emulator's kernels
FORMS = list(product("LR", "LU", "NTC", "NU"))


def triangles(rng: Any, orders: list[int], dtype: str) -> list[Any]:
    """Small integers, powers of two (times a unit) on the diagonal: all sums on the way are exact."""
    found = []
    for n in orders:
        A = integers(rng, (n, n), dtype)
        units = [1, 2, -1, 1j, -2j] if dtype.startswith("complex") else [1, 2, -1, 4]
        A[range(n), range(n)] = rng.choice(units, n)
        found.append(A)
    return found


def named(A: Any, uplo: str, diag: str, fill: complex = 0) -> Any:
    """The triangle that an option names; the other entries are `fill`."""
    mask = np.tri(len(A), k=-1 if diag == "U" else 0, dtype=bool)
    mask = mask if uplo == "L" else mask.T
    made = np.where(mask, A, fill).astype(A.dtype)
    if diag == "U" and not np.isnan(fill):
        made[range(len(A)), range(len(A))] = 1
    return made


def op(A: Any, trans: str) -> Any:
    return {"N": A, "T": A.T, "C": A.conj().T}[trans]


def system(rng: Any, orders: list[int], columns: list[int], dtype: str, form: tuple[str, ...]) -> tuple[Any, Any, Any]:
    """Matrices with NaN where nothing is read, right-hand sides and solutions."""
    side, uplo, trans, diag = form
    A = triangles(rng, orders, dtype)
    X = [integers(rng, (n, k) if side == "L" else (k, n), dtype) for n, k in zip(orders, columns, strict=True)]
    whole = [op(named(one, uplo, diag), trans) for one in A]
    B = [E @ x if side == "L" else x @ E for E, x in zip(whole, X, strict=True)]
    return [named(one, uplo, diag, np.nan) for one in A], [one.astype(dtype) for one in B], X


def options(form: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(("side", "uplo", "trans", "diag"), form, strict=True))


# ---- trsm -----------------------------------------------------------------------------------------------------


@needs_cpu
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_systems_are_exact(dtype: str) -> None:
    """Every option, places of their own and in place; nothing is written between the matrices."""
    rng = np.random.default_rng(1)
    columns = [1, 2, 9, 1, 3] * 3
    for form in FORMS:
        A, B, X = system(rng, ORDERS, columns, dtype, form)
        a, b = (guarded(rng, many, dtype) for many in (A, B))
        assert same(ms.blas.trsm(a, b, **options(form)), X)
        out = guarded(rng, [np.full_like(one, np.nan) for one in B], dtype)
        assert ms.blas.trsm(a, b, alpha=-2, out=out, **options(form)) is out and same(out, [-2 * x for x in X])
        assert np.isnan(outside(out)).all()
        assert ms.blas.trsm(a, b, out=b, **options(form)) is b and same(b, X) and np.isnan(outside(b)).all()


@pytest.mark.parametrize("dtype, form", [("float64", FORMS[0]), ("float64", FORMS[-1]), ("complex128", FORMS[4])])
def test_systems_of_classes_are_exact(dtype: str, form: tuple[str, ...], gpu_backend: str) -> None:
    """Gathered, padded by unit matrices, solved by the kernel of the class, and scattered; unknowns of the padding come
    first or last."""
    rng, xp = np.random.default_rng(2), testing.array_module(gpu_backend)
    A, B, X = system(rng, SMALL, [1, 4, 2, 3, 2, 4, 3], dtype, form)
    a, b = (guarded(rng, many, dtype, xp) for many in (A, B))
    out = guarded(rng, [np.full_like(one, np.nan) for one in B], dtype, xp)
    assert ms.blas.trsm(a, b, alpha=2, out=out, backend=gpu_backend, **options(form)) is out
    assert same(out, [2 * x for x in X]) and np.isnan(outside(out)).all()
    assert ms.blas.trsm(a, b, out=b, backend=gpu_backend, **options(form)) is b and same(b, X)


def test_a_singular_matrix_spoils_only_itself(backend: str) -> None:
    rng, xp = np.random.default_rng(3), testing.array_module(backend)
    A, B, X = system(rng, SMALL, [2] * 7, "float64", FORMS[0])
    A[3][0, 0] = 0
    a, b = (ms.Ragged.from_list([xp.asarray(one) for one in many]) for many in (A, B))
    found = ms.blas.trsm(a, b, backend=backend)
    assert all(np.array_equal(host(found[i]), X[i]) for i in range(7) if i != 3)
    assert not np.isfinite(host(found[3])).all()
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[3\] is singular: entry 0 of its diagonal is zero"):
        ms.linalg.solve_triangular(a, b, lower=True, check=True, out=b, backend=backend)
    assert same(b, B)


@needs_cpu
def test_large_systems_and_one_matrix_for_all() -> None:
    rng = np.random.default_rng(4)
    A = [np.tril(numbers(rng, (n, n), "float64")) + n * np.eye(n) for n in (3, 200, 129)]
    B = [numbers(rng, (n, 2), "float64") for n in (3, 200, 129)]
    found = ms.linalg.solve_triangular(ms.Ragged.from_list(A), ms.Ragged.from_list(B), lower=True)
    for one, x, right in zip(A, found, B, strict=True):
        assert abs(one @ x - right).max() <= 1e-12
    single, rights = triangles(rng, [4], "float64")[0], [integers(rng, (4, k), "float64") for k in (1, 3, 0, 2)]
    expected = [np.tril(single) @ one for one in rights]
    assert same(ms.blas.trsm(single, ms.Ragged.from_list(expected)), rights)
    assert same(ms.blas.trmm(single, ms.Ragged.from_list(rights)), expected)
    assert same(ms.blas.trsm(single, ms.Ragged.from_list(expected), backend="reference"), rights)
    zero = ms.blas.trsm(np.full((4, 4), np.nan), ms.Ragged.from_list(rights), alpha=0)
    assert same(zero, [0 * one for one in rights])


def test_vectors(backend: str) -> None:
    rng, xp = np.random.default_rng(5), testing.array_module(backend)
    A, B, X = system(rng, SMALL, [1] * 7, "float64", ("L", "U", "T", "N"))
    a, b = (ms.Ragged.from_list([xp.asarray(one) for one in many]) for many in (A, B))
    assert same(ms.blas.trsv(a, b, uplo="U", trans="T", backend=backend), X)
    lists = [[xp.asarray(one) for one in A], [xp.asarray(one[:, 0]) for one in B]]
    found = ms.blas.trsv(*lists, uplo="U", trans="T", backend=backend)
    assert isinstance(found, list) and same(found, [one[:, 0] for one in X])
    out = [xp.zeros(len(one)) for one in A]
    assert ms.blas.trsv(*lists, uplo="U", trans="T", out=out, backend=backend) is out
    assert same(out, [one[:, 0] for one in X])
    with pytest.raises(ValueError, match=r"x\[0\] has shape \(3, 3\): one column is needed"):
        ms.blas.trsv(a, a)


def test_what_does_not_fit() -> None:
    a, b = ms.Ragged.from_list([np.eye(3), np.eye(2)]), ms.Ragged.from_list([np.ones((3, 1)), np.ones((3, 1))])
    with pytest.raises(ValueError, match=r"a\[0\] has shape \(3, 1\): a triangular matrix is square"):
        ms.blas.trsm(b, b)
    with pytest.raises(ValueError, match=r"a\[1\] has order 2 and b\[1\] 3 rows: both need the same number"):
        ms.blas.trsm(a, b)
    with pytest.raises(ValueError, match="a has 2 matrices and b 1: one for each is needed"):
        ms.blas.trmm(a, b[:1])
    with pytest.raises(ValueError, match="out overlaps a: the result needs memory of its own"):
        ms.blas.trsm(a, ms.Ragged.from_list([np.ones((3, 3)), np.ones((2, 2))]), out=a)
    c = ms.Ragged.from_list([np.ones((3, 1)), np.ones((2, 1))])
    shifted = ms.Ragged(c.buffer, [3, 2], 1, [1, 5])
    with pytest.raises(ValueError, match="out overlaps b: the result needs memory of its own, or b itself"):
        ms.blas.trsm(a, c, out=shifted)
    with pytest.raises(ValueError, match=r"out\[1\] has 3 rows, the result 2"):
        ms.blas.trsm(a, c, out=b)
    with pytest.raises(TypeError, match="out is a ndarray: the results of ragged batches need a Ragged"):
        ms.blas.trsm(a, c, out=np.ones(3))
    with pytest.raises(ValueError, match="out holds an array twice"):
        ms.blas.trsm([np.eye(3), np.eye(2)], [np.ones((3, 1)), np.ones((2, 1))], out=[(p := np.ones((3, 1))), p])
    with pytest.raises((TypeError, UnsupportedProblem), match=r"b\[1\].* float16"):
        ms.blas.trsm([np.eye(3), np.eye(2)], [np.ones((3, 1)), np.ones((2, 1), "f2")])
    with pytest.raises(UnsupportedProblem, match=r"a\[0\] has dtype int64; supported are"):
        ms.blas.trsm([np.eye(3, dtype=int), np.eye(2, dtype=int)], [np.ones((3, 1), int), np.ones((2, 1), int)])
    with pytest.raises(TypeError, match="alpha and beta must be real"):
        ms.blas.trsm(a, c, alpha=1j)
    assert triangle("R").side == "right"


# ---- trmm, gemv, syrk, herk -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_triangular_products_are_exact(dtype: str, backend: str) -> None:
    rng, xp = np.random.default_rng(6), testing.array_module(backend)
    orders = SMALL if backend == "emulated" else ORDERS
    for form in FORMS[:: 11 if backend == "emulated" else 1]:
        A, B, X = system(rng, orders, [2] * len(orders), dtype, form)
        a, x = (ms.Ragged.from_list([xp.asarray(one) for one in many]) for many in (A, X))
        assert same(ms.blas.trmm(a, x, alpha=2, backend=backend, **options(form)), [2 * one for one in B])
        assert ms.blas.trmm(a, x, out=x, backend=backend, **options(form)) is x and same(x, B)


def test_lists_that_differ_in_shape(backend: str) -> None:
    """The same results as for Ragged, as lists; `out` is a list, and keeps what is not written."""
    rng, xp = np.random.default_rng(7), testing.array_module(backend)
    A, B, X = system(rng, [3, 1, 4], [2, 4, 3], "float64", FORMS[0])
    a, b, x = ([xp.asarray(one) for one in many] for many in (A, B, X))
    assert same(ms.blas.trsm(a, b, backend=backend), X) and same(ms.blas.trmm(a, x, backend=backend), B)
    assert same(ms.linalg.solve_triangular(a, b, lower=True, backend=backend), X)
    assert ms.blas.trsm(a, b, out=b, backend=backend) is b and same(b, X)
    G = [integers(rng, (m, n), "float64") for m, n in ((3, 2), (1, 4), (5, 5))]
    v = [integers(rng, (n, 1), "float64")[:, 0] for n in (2, 4, 5)]
    g, vectors = [xp.asarray(one) for one in G], [xp.asarray(one) for one in v]
    products = [one @ y for one, y in zip(G, v, strict=True)]
    assert same(ms.blas.gemv(g, vectors, backend=backend), products)
    out = [xp.ones(len(one)) for one in G]
    assert ms.blas.gemv(g, vectors, alpha=2, beta=-1, out=out, backend=backend) is out
    assert same(out, [2 * one - 1 for one in products])
    assert same(ms.blas.syrk(g, backend=backend), [one @ one.T for one in G])
    out = [xp.ones((n, n)) for n in (2, 4, 5)]
    assert ms.blas.syrk(g, trans="T", uplo="U", beta=3, out=out, backend=backend) is out
    for one, found in zip(G, out, strict=True):
        assert np.array_equal(host(found), np.triu(one.T @ one + 3) + np.tril(np.ones_like(host(found)), -1))


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_rank_k_of_ragged_batches(dtype: str, backend: str) -> None:
    rng, xp = np.random.default_rng(8), testing.array_module(backend)
    G = [integers(rng, (m, n), dtype) for m, n in ((3, 2), (0, 2), (1, 4), (4, 3), (2, 0))]
    g = ms.Ragged.from_list([xp.asarray(one) for one in G])
    for name, turn in (("syrk", lambda one: one.T), ("herk", lambda one: one.conj().T)):
        call = getattr(ms.blas, name)
        assert same(call(g, uplo="U", backend=backend), [one @ turn(one) for one in G])
        other = "C" if name == "herk" else "T"
        out = ms.Ragged.from_list([xp.ones((one.shape[1],) * 2, dtype) for one in G])
        assert call(g, trans=other, alpha=2, beta=-1, out=out, backend=backend) is out
        for one, found in zip(G, out, strict=True):
            whole = 2 * turn(one) @ one - 1
            expected = np.tril(whole) + np.triu(np.ones_like(whole), 1)
            assert np.array_equal(host(found), expected)
    with pytest.raises(ValueError, match=r"out\[0\] has 2 rows, the result 3"):
        ms.blas.syrk(g, out=out, backend=backend)


@needs_cpu
def test_tensors() -> None:
    torch = wanted("torch")
    a = ms.Ragged.from_list([2 * torch.eye(n, dtype=torch.float64) for n in (3, 1, 4)])
    b = ms.Ragged.from_list([torch.ones(n, 2, dtype=torch.float64) for n in (3, 1, 4)])
    for found in (ms.blas.trsm(a, b), ms.linalg.solve(a, b)):
        assert all(torch.equal(one, torch.full_like(one, 0.5)) for one in found)
    assert all(torch.equal(one, torch.full_like(one, 2.0)) for one in ms.blas.trmm(a, b))
    lu, piv = ms.linalg.lu_factor(a)
    assert piv[2].dtype == torch.int32 and piv[2].tolist() == [0, 1, 2, 3]
    assert all(torch.equal(one, torch.full_like(one, 0.5)) for one in ms.linalg.lu_solve((lu, piv), b))
    assert ms.linalg.det(a).tolist() == [8, 2, 16]
    lists = ms.blas.trsm(a.to_list(), b.to_list())
    assert isinstance(lists, list) and torch.equal(lists[0], torch.full((3, 2), 0.5, dtype=torch.float64))
