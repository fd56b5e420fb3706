"""Factors of a batch, one number for each matrix; vectors in place of matrices of one column. Integers: all exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from boundary_cases import COUNT
from conftest import needs_cpu
from sparing import rotated

import mansard as ms

pytestmark = needs_cpu
RNG = np.random.default_rng(5)
A, B, OUT = (RNG.integers(-3, 4, (COUNT, 2, 2)).astype(float) for _ in range(3))
ALPHA, BETA = (RNG.integers(-3, 4, COUNT).astype(float) for _ in range(2))
BETA[:3] = 0


def column(factor: Any) -> Any:
    return np.asarray(factor)[..., None, None]


# ---- alpha and beta of gemm -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_every_product_has_its_factors(dtype: str) -> None:
    a, b, out = (one.astype(dtype) for one in (A, B, OUT))
    factor = ALPHA * (1 + 2j) if dtype == "complex128" else ALPHA
    expected = (column(factor) * (a @ b.swapaxes(-1, -2)) + column(BETA) * out).astype(dtype)
    assert ms.blas.gemm(a, b, alpha=factor, beta=BETA, trans_b="T", out=out) is out
    assert np.array_equal(out, expected)
    alone = ms.blas.gemm(a, b, alpha=factor.tolist())
    assert alone.dtype == dtype and np.array_equal(alone, (column(factor) * (a @ b)).astype(dtype))


def test_what_a_zero_factor_multiplies_is_not_read() -> None:
    out = OUT.copy()
    out[:3] = np.nan
    out[1] = np.inf
    ms.blas.gemm(A, B, beta=BETA, out=out)
    assert np.array_equal(out[:3], A[:3] @ B[:3])
    assert np.array_equal(out[3:], A[3:] @ B[3:] + column(BETA[3:]) * OUT[3:])


def test_factors_broadcast() -> None:
    a, b = A.reshape(4, 10, 2, 2), B.reshape(4, 10, 2, 2)
    for shape in ((10,), (4, 1), (1, 10), (4, 10), (1,)):
        factor = RNG.integers(-3, 4, shape).astype(float)
        assert np.array_equal(ms.blas.gemm(a, b, alpha=factor), column(factor) * (a @ b))
        assert np.array_equal(ms.blas.gemm(a, b[0, 0], alpha=factor), column(factor) * (a @ b[0, 0]))
    assert np.array_equal(ms.blas.gemm(A, B, alpha=np.array(2.0)), 2 * (A @ B))
    assert np.array_equal(ms.blas.gemm(A, B, alpha=np.int8(2)), 2 * (A @ B))
    assert np.array_equal(ms.blas.gemm(A[0], B[0], alpha=np.array(2.0)), 2 * (A[0] @ B[0]))


def test_factors_of_lists() -> None:
    a, b, out = list(A), list(B), [one.copy() for one in OUT]
    found = ms.blas.gemm(a, b, alpha=ALPHA)
    assert isinstance(found, list) and np.array_equal(np.stack(found), column(ALPHA) * (A @ B))
    assert ms.blas.gemm(a, b, alpha=ALPHA, beta=BETA, out=out) is out
    assert np.array_equal(np.stack(out), column(ALPHA) * (A @ B) + column(BETA) * OUT)
    sizes = [np.ones((2, 3)), np.ones((1, 3))]
    unlike = ms.blas.gemm(sizes, [one.T for one in sizes], alpha=[2.0, -1.0])
    assert np.array_equal(unlike[0], np.full((2, 2), 6.0)) and np.array_equal(unlike[1], [[-3.0]])


def test_factors_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    a, b, out = (torch.tensor(one) for one in (A, B, OUT))
    expected = column(ALPHA) * (A @ B) + column(BETA) * OUT
    assert ms.blas.gemm(a, b, alpha=torch.tensor(ALPHA), beta=BETA, out=out) is out
    assert np.array_equal(out.numpy(), expected)


@rotated(2)
def test_factors_of_differentiated_and_traced_products() -> None:
    """With as many products as columns a factor too few dimensions wide would scale columns."""
    a, x, alpha = A[:2], B[:2, 0], np.array([2.0, -1.0])
    wanted = [column(alpha) * (a @ B[:2]), alpha[:, None] * (a @ x[..., None])[..., 0],
              column(alpha) * (a @ a.swapaxes(-1, -2)), column(alpha) * (a @ B[:2]),
              column(alpha) * np.stack([alone("trsm", *them) for them in zip(a, B, strict=False)]),
              column(alpha) * (np.triu(a) @ B[:2])]  # fmt: skip

    def calls(convert: Any, a: Any) -> list[Any]:
        alphas = convert(alpha)
        return [ms.blas.gemm(a, convert(B[:2]), alpha=alphas), ms.blas.gemv(a, convert(x), alpha=alphas),
                ms.blas.syrk(a, alpha=alphas),
                *(CALLS[name](a, convert(B[:2]), alpha=alphas) for name in ("matmul", "trsm", "trmm"))]  # fmt: skip

    torch = pytest.importorskip("torch")
    tensor = torch.tensor(a, requires_grad=True)
    for found, expected in zip(calls(torch.tensor, tensor), wanted, strict=True):
        assert found.requires_grad and np.array_equal(found.detach().numpy(), expected)
    with pytest.raises(ValueError, match=r"alpha has shape \(3,\), which does not broadcast with the batch \(2,\)"):
        ms.blas.gemm(tensor, tensor, alpha=torch.ones(3))
    with pytest.raises(ValueError, match="alpha has shape"):
        ms.gram(tensor[0], tensor[0], alpha=torch.ones(2))
    jax = pytest.importorskip("jax")
    for found, expected in zip(jax.jit(lambda a: calls(jax.numpy.asarray, a))(a.astype("f4")), wanted, strict=True):
        assert np.array_equal(np.asarray(found), expected)


def test_factors_of_vectors() -> None:
    x, out = B[:, 0], OUT[:, 0].copy()
    products = (A @ x[..., None])[..., 0]
    expected = ALPHA[:, None] * products + BETA[:, None] * out
    assert np.array_equal(ms.blas.gemv(A, x, alpha=ALPHA), ALPHA[:, None] * products)
    assert ms.blas.gemv(A, x, alpha=ALPHA, beta=BETA, out=out) is out and np.array_equal(out, expected)
    turned = (A.swapaxes(-1, -2) @ x[0][:, None])[..., 0]
    assert np.array_equal(ms.blas.gemv(A, x[0], trans="T", alpha=ALPHA.tolist()), ALPHA[:, None] * turned)
    listed = ms.blas.gemv(list(A), list(x), alpha=ALPHA)
    assert isinstance(listed, list) and np.array_equal(np.stack(listed), ALPHA[:, None] * products)
    one = ms.blas.gemv(A[0], x[0], alpha=np.array(2.0))
    assert np.array_equal(one, 2 * products[0])
    ragged = ms.blas.gemv(RAGGED, [np.ones(3), np.ones(3)], alpha=[2.0, -1.0])
    assert [one.ravel().tolist() for one in ragged] == [[6.0, 6.0], [-3.0]]
    with pytest.raises(ValueError, match=r"alpha has shape \(3,\)"):
        ms.blas.gemv(A, x, alpha=np.ones(3))


RAGGED = ms.Ragged.from_list([np.ones((2, 3)), np.ones((1, 3))])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": np.ones(3)}, ValueError, r"alpha has shape \(3,\).*batch \(40,\)"),
        ({"alpha": np.ones((2, COUNT))}, ValueError, r"alpha has shape \(2, 40\)"),
        ({"beta": np.ones(COUNT)}, ValueError, "beta scales the content of out: pass out"),
        ({"alpha": 1j * np.ones(COUNT)}, TypeError, "alpha must be real"),
        ({"alpha": np.array(["a"] * COUNT)}, TypeError, "alpha has dtype"),
        ({"alpha": ALPHA, "out": np.full((COUNT, 2, 3), 7.0)}, ValueError, "out has shape"),
        ({"alpha": ALPHA, "out": np.full((COUNT, 2, 2), 7, "f4")}, TypeError, "and out float32"),
        ({"alpha": ALPHA, "out": [np.full((2, 2), 7.0)]}, ValueError, "out is no array"),
    ],
)
def test_factors_that_do_not_fit_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ms.blas.gemm(A, B, **options)
    assert all((np.asarray(one) == 7).all() for one in [options.get("out", 7)])


def test_batches_that_have_one_factor() -> None:
    with pytest.raises(TypeError, match="one number each for an Interleaved"):
        ms.blas.gemm(ms.interleave(A), ms.interleave(B), alpha=ALPHA)


# ---- ragged batches, and updates of one triangle --------------------------------------------------------------------

UNLIKE = [RNG.integers(-3, 4, shape).astype(float) for shape in ((2, 3), (1, 3), (3, 3))]
PLACES = [np.full((len(one), len(one)), float(i + 2)) for i, one in enumerate(UNLIKE)]
BY, KEPT = np.array([2.0, -1.0, 3.0]), np.array([0.0, 2.0, -1.0])


def test_factors_of_ragged_batches() -> None:
    r = ms.Ragged.from_list(UNLIKE)
    for one, a, by in zip(ms.blas.gemm(r, r, alpha=BY, trans_b="T").to_list(), UNLIKE, BY, strict=True):
        assert np.array_equal(one, by * (a @ a.T))
    places = [np.full_like(PLACES[0], np.nan), *PLACES[1:]]  # whose factor is zero is not read
    out = ms.Ragged.from_list(places)
    assert ms.blas.gemm(r, r, alpha=BY, beta=KEPT, trans_b="T", out=out) is out
    for one, a, by, kept, place in zip(out.to_list(), UNLIKE, BY, KEPT, PLACES, strict=True):
        assert np.array_equal(one, by * (a @ a.T) + kept * place)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": BY[:2]}, ValueError, r"alpha has shape \(2,\)"),
        ({"beta": BY}, ValueError, "beta scales the content of out"),
        ({"alpha": BY, "out": ms.Ragged.from_list(UNLIKE)}, ValueError, r"out\[0\] has 3 columns"),
        ({"alpha": BY, "out": ms.Ragged.from_list(PLACES[:2])}, ValueError, "out has 2 matrices"),
        ({"alpha": BY, "out": list(PLACES)}, TypeError, "where one is a Ragged"),
    ],
)
def test_factors_that_do_not_fit_a_ragged_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    r = ms.Ragged.from_list(UNLIKE)
    with pytest.raises(error, match=message):
        ms.blas.gemm(r, r, trans_b="T", **options)


FORMS = {"stack": np.stack, "list": list, "unlike": list, "ragged": ms.Ragged.from_list}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_updates_of_one_triangle_have_their_factors(form: str, uplo: str) -> None:
    given = UNLIKE if form in ("unlike", "ragged") else list(A[:3])
    places = [np.full((len(one), len(one)), float(i + 2)) for i, one in enumerate(given)]
    make, triangle = FORMS[form], np.tril if uplo == "L" else np.triu
    waves = [one + 1j * one[::-1] for one in given]
    for update, values in ((ms.blas.syrk, given), (ms.blas.herk, waves)):
        dtype = values[0].dtype
        products = [by * (one @ one.T.conj()) for one, by in zip(values, BY, strict=True)]
        for one, expected in zip(update(make(values), alpha=BY, uplo=uplo), products, strict=True):
            assert np.array_equal(one, expected)
        out = make([one.astype(dtype) for one in places])
        assert update(make(values), alpha=BY, beta=KEPT, uplo=uplo, out=out) is out
        for one, expected, kept, place in zip(out, products, KEPT, places, strict=True):
            inside = triangle(np.ones_like(place)).astype(bool)
            assert np.array_equal(one, np.where(inside, expected + kept * place, place))


CALLS: dict[str, Callable[..., Any]] = {
    "trsm": lambda a, b, **options: ms.blas.trsm(a, b, diag="U", **options),
    "trmm": lambda a, b, **options: ms.blas.trmm(a, b, uplo="U", **options),
    "matmul": ms.matmul,
}


def alone(name: str, a: Any, b: Any) -> Any:
    if name == "trsm":
        return np.rint(np.linalg.solve(np.tril(a, -1) + np.eye(len(a)), b)) + 0  # whole numbers: the diagonal is ones
    return (np.triu(a) if name == "trmm" else a) @ b


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CALLS)
def test_triangles_and_products_of_any_shape_have_their_factors(name: str, form: str) -> None:
    sizes = (2, 1, 3) if form in ("unlike", "ragged") else (2, 2, 2)
    a = [RNG.integers(-3, 4, (n, n)).astype(float) for n in sizes]
    b = [RNG.integers(-3, 4, (n, 2)).astype(float) for n in sizes]
    call, make = CALLS[name], FORMS[form]
    expected = [by * alone(name, *them) for by, *them in zip(BY, a, b, strict=True)]
    for factor in (BY, BY.tolist()):
        for one, other in zip(call(make(a), make(b), alpha=factor), expected, strict=True):
            assert np.array_equal(one, other)
    out = make([one.copy() for one in b])
    assert call(make(a), out if name != "matmul" else make(b), alpha=BY, out=out) is out
    for one, other in zip(out, expected, strict=True):
        assert np.array_equal(one, other)
    with pytest.raises(ValueError, match=r"alpha has shape \(2,\).*batch \(3,\)"):
        call(make(a), make(b), alpha=BY[:2])
    if name == "matmul":
        out = make([one.copy() for one in b])
        for one, other, kept, place in zip(ms.matmul(make(a), make(b), alpha=BY, beta=KEPT, out=out), expected, KEPT, b,
                                           strict=True):  # fmt: skip
            assert np.array_equal(one, other + kept * place)


def test_products_with_vectors_have_their_factors() -> None:
    a, x = A[:3], B[0, 0]
    assert np.array_equal(ms.matmul(a, x, alpha=BY), BY[:, None] * (a @ x))
    assert np.array_equal(ms.matmul(x, a, alpha=BY), BY[:, None] * (x @ a))
    assert ms.matmul(x, x, alpha=np.array(2.0)) == 2 * (x @ x)
    with pytest.raises(TypeError, match="one number each for an Interleaved"):
        ms.blas.trsm(ms.interleave(a + 9), ms.interleave(a), alpha=BY)


@pytest.mark.parametrize("name", ["syr2k", "her2k"])
@pytest.mark.parametrize("form", ["stack", "list"])
def test_rank_2k_updates_have_their_factors(name: str, form: str) -> None:
    update, make = getattr(ms.blas, name), FORMS[form]
    a, b, place = A[:3], B[:3] * 2, np.full((3, 2, 2), 5.0)
    whole = column(BY) * (a @ b.swapaxes(-1, -2) + b @ a.swapaxes(-1, -2))
    assert np.array_equal(np.stack(update(make(a), make(b), alpha=BY)), whole)
    out = make([one.copy() for one in place])
    assert update(make(a), make(b), alpha=BY, beta=KEPT, out=out) is out
    expected = np.where(np.tri(2) > 0, whole + column(KEPT) * place, place)
    assert np.array_equal(np.stack(list(out)), expected)
    with pytest.raises(TypeError, match="one number each for the rank-2k update of a Ragged"):
        update(FORMS["ragged"](list(a)), FORMS["ragged"](list(b)), alpha=BY)
    with pytest.raises(TypeError, match="must be real"):
        update(make(a), make(b), beta=1j * KEPT, out=out)


def test_factors_of_jax_arrays() -> None:
    jnp = pytest.importorskip("jax").numpy
    a, b = (jnp.asarray(one[:3], "float32") for one in (A, B))
    for name, call in CALLS.items():
        expected = np.stack([by * alone(name, *map(np.asarray, them)) for by, *them in zip(BY, a, b, strict=True)])
        assert np.array_equal(call(a, b, alpha=BY), expected)
        assert np.array_equal(np.stack(call(list(a), list(b), alpha=jnp.asarray(BY))), expected)
    with pytest.raises(ValueError, match=r"alpha has shape \(2,\)"):
        ms.matmul(a, b, alpha=BY[:2])
    with pytest.raises(TypeError, match="alpha must be real"):
        ms.blas.gemm(a, b, alpha=1j * BY)
    with pytest.raises(TypeError, match="one number each for the rank-2k update of JAX arrays"):
        ms.blas.syr2k(a, b, alpha=BY)


def test_factors_of_hermitian_updates_are_real() -> None:
    for factor in (1j * ALPHA, [1.0, 1j]):
        with pytest.raises(TypeError, match="alpha must be real: the result would not be Hermitian"):
            ms.blas.herk(A, alpha=factor)


# ---- vectors --------------------------------------------------------------------------------------------------------


def test_vectors_beside_a_ragged() -> None:
    matrices = [RNG.integers(-3, 4, shape).astype(float) for shape in ((2, 3), (1, 4), (3, 1))]
    r, xs = ms.Ragged.from_list(matrices), [RNG.integers(-3, 4, one.shape[1]).astype(float) for one in matrices]
    ys = [RNG.integers(-3, 4, one.shape[0]).astype(float) for one in matrices]
    for found, expected in (
        (ms.blas.gemv(r, xs), [a @ x for a, x in zip(matrices, xs, strict=True)]),
        (ms.blas.gemv(r, ys, trans="T"), [a.T @ y for a, y in zip(matrices, ys, strict=True)]),
        (ms.blas.gemv(r, [x.astype("f4") for x in xs]), [a @ x for a, x in zip(matrices, xs, strict=True)]),
        (ms.blas.gemv(RAGGED, np.array([1.0, 2.0, 3.0]), alpha=2.0), [np.full(2, 12.0), np.full(1, 12.0)]),
        (ms.blas.gemv(RAGGED, [1, 2, 3]), [np.full(2, 6.0), np.full(1, 6.0)]),
    ):
        assert isinstance(found, ms.Ragged)
        for one, other in zip(found.to_list(), expected, strict=True):
            assert np.array_equal(one[:, 0], other)
    for wrong in (np.ones(5), [np.ones(3)], [np.ones(3), np.ones(5), np.ones(1)], 3.0, "x", []):
        with pytest.raises((TypeError, ValueError)):
            ms.blas.gemv(r, wrong)


@rotated(2)
def test_vectors_of_systems() -> None:
    a, b = A + 9 * np.eye(2), B[:, :, 0]
    for call in (
        lambda a, b: ms.linalg.solve(a, b),
        lambda a, b: ms.linalg.lstsq(a, b, driver="qr").x,
        lambda a, b: ms.linalg.lu_solve(ms.linalg.lu_factor(a), b),
    ):
        for found in (call(list(a), list(b)), [call(a, one)[i] for i, one in enumerate(b[:4])]):
            for i, one in enumerate(found):
                assert one.shape == (2,) and np.allclose(a[i] @ one, b[i], atol=1e-12)


def test_residuals_of_vectors() -> None:
    a, b = RNG.standard_normal((3, 5, 2)), RNG.standard_normal(5)
    expected = [np.linalg.lstsq(one, b, rcond=None) for one in a]
    for given in (a, list(a)):
        found = ms.linalg.lstsq(given, b)
        for i, (x, residuals, rank, s) in enumerate(expected):
            assert np.allclose(found.x[i], x) and np.allclose(found.residuals[i], residuals[0])
            assert found.rank[i] == rank and np.allclose(found.s[i], s)


def test_a_vector_is_orthogonalized() -> None:
    basis = np.eye(6)[:, :2]
    v = np.array([3.0, -2.0, 0.0, 4.0, 0.0, 0.0])
    Q, R, H = ms.orthogonalize(v, against=basis)
    assert np.array_equal(Q, np.eye(6)[3]) and R.shape == () and R == 4 and np.array_equal(H, [3.0, -2.0])
    Q, R, H = ms.orthogonalize(v, against=basis[:, 0])
    assert Q.shape == (6,) and H.shape == () and H == 3 and np.allclose(3 * basis[:, 0] + R * Q, v)
    Q, R, H = ms.orthogonalize(v[:, None], against=basis[:, 0])
    assert Q.shape == (6, 1) and R.shape == (1, 1) and H.shape == (1,)
    out = np.zeros(6)
    assert ms.orthogonalize(v, against=basis, out=out)[0] is out and out[3] == 1
    with pytest.raises(ValueError, match="out has shape"):
        ms.orthogonalize(v, against=basis, out=np.zeros((6, 1)))
    assert ms.orthogonalize(basis[:, 0], against=basis, on_deficient="flag")[3].all()
