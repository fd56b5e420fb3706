"""`ms.linalg`: large matrices in blocks, and other array libraries."""

from __future__ import annotations

import doctest
import importlib
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from linalg_cases import (
    THRESHOLD,
    adjoint,
    by_libraries,  # noqa: F401
    cholesky_ratio,
    definite,
    exchanged,
    lu_ratio,
    normal,
    qr_ratios,
)
from lu_cases import exact_matrices

import mansard as ms
import mansard.linalg.positive
import mansard.linalg.systems
import mansard.settings
from mansard.arrays.kinds import KINDS as LIBRARIES
from mansard.kernels.factor.lu import spec as lu_spec
from mansard.operations.factor import lapack as factor_lapack
from mansard.operations.factor import plan as factor_plan
from mansard.operations.factor import swaps as factor_swaps
from mansard.operations.factor.blocked import HOW, Steps
from mansard.operations.factor.task import Task

pytestmark = pytest.mark.usefixtures("no_plans")

linalg = ms.linalg
NUMPY = LIBRARIES["numpy"]


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


@pytest.mark.parametrize("how", [*HOW, Steps((16, 4), leaf=4), Steps(leaf=8), "lapack"], ids=str)
def test_the_first_of_equal_pivots_is_taken(how: Any) -> None:
    """Elimination is exact, and rows anywhere share the size of the pivot."""
    for dtype, rows, columns in (("float64", 40, 40), ("complex128", 45, 30), ("float32", 30, 45)):
        made = exact_matrices(lu_spec.problem(dtype, rows, columns, 2), 3)
        if how == "lapack":
            found = factor_lapack.answer(Task("lu"), made.A)
        else:
            found = factor_plan.staged(Task("lu"), made.A, how, "reference")
        assert (found["PIVOTS"] == made.pivots).all() and (found["F"] == made.factors).all(), (dtype, rows, columns)


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
    from mansard.arrays import kinds as arrays
    from mansard.operations.factor import lapack as factor_lapack
    from mansard.operations.factor import library as factor_library
    from mansard.operations.factor.two_sided.derived import least_squares

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
        solved = [np.linalg.lstsq(one, other, rcond=1e-6) for one, other in zip(tall, right, strict=True)]
        found = least_squares(kind, torch.from_numpy(tall), torch.from_numpy(right), 1e-6, "reference")
        for one, part in zip(found, (0, 2, 3), strict=True):
            assert np.allclose(one.numpy(), [each[part] for each in solved], rtol=1e-3, atol=1e-4)


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
    for beyond in (3, -1):  # of one matrix, and of many
        for count in (1, 20):
            with pytest.raises(ValueError, match="piv has entries that are no rows of lu"):
                linalg.lu_solve((np.array([np.eye(3)] * count), np.full((count, 3), beyond)), np.ones((count, 3, 1)))
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
