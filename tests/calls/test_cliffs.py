"""Shapes at which the speed fell off, found by random problems: they keep to the routes that mended them, and stay
exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard.arrays.kinds import KINDS
from mansard.backends.cpu import CpuBackend
from mansard.operations.batched import rank_call
from mansard.operations.factor.swaps import order_of, permuted
from mansard.plan import batched_rules
from mansard.plan.libraries import AFTER_FACTORS
from mansard.plan.route import Library, Request, Steps

NUMPY = KINDS["numpy"]


@pytest.mark.parametrize("lead", [(), (1,), (7,), (2, 3)])
@pytest.mark.parametrize(("rows", "count"), [(1, 1), (5, 5), (6, 3)])
def test_rows_are_exchanged_as_pivots_say(lead: tuple[int, ...], rows: int, count: int) -> None:
    """In any layout; an order that serves several batches is broadcast."""
    rng = np.random.default_rng(rows)
    lowest = np.minimum(np.arange(count), rows - 1)
    pivots = rng.integers(lowest, rows, (*lead, count)).astype(np.int32)
    X = rng.integers(-3, 4, (*lead, rows, 4)).astype(float)
    wanted = X.copy()
    for at in np.ndindex(*lead):
        for i, other in enumerate(pivots[at]):
            wanted[at][[i, other]] = wanted[at][[other, i]]
    order = order_of(NUMPY, pivots, rows)
    for place in (X, np.asfortranarray(X), np.repeat(X, 2, -1)[..., ::2]):
        assert np.array_equal(permuted(NUMPY, order, place), wanted)
    several = np.broadcast_to(order[..., None, :], (*lead, 1, rows))
    assert np.array_equal(permuted(NUMPY, several, X[..., None, :, :])[..., 0, :, :], wanted)


def test_many_systems_with_many_right_hand_sides_are_not_left_to_lapack() -> None:
    """On CPUs beyond the right-hand sides of one kernel: factors and triangles by kernels. Powers of two are exact."""
    rng = np.random.default_rng(3)
    A = np.stack([np.eye(6)[rng.permutation(6)] * 2.0 ** rng.integers(-2, 3, (6, 1)) for _ in range(40)])
    X = rng.integers(-3, 4, (40, 6, 24)).astype(float)
    plan = ms.plan("solve", A, A @ X)
    if plan.kernel is None and isinstance(plan.choice.route, Library) and "compiler" in plan.choice.reason:
        pytest.skip(plan.choice.reason)
    assert isinstance(plan.choice.route, Steps) and plan.choice.route.name == AFTER_FACTORS
    assert np.array_equal(ms.linalg.solve(A, A @ X), X)
    few = ms.plan("solve", A[:3], (A @ X)[:3])
    assert isinstance(few.choice.route, Library), "few systems are over before kernels begin"


@pytest.mark.parametrize("layout", ["row", "column", "batch last"])
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_triangles_of_batches_are_multiplied_by_a_kernel(layout: str, uplo: str) -> None:
    """BLAS is called matrix by matrix, on one core; what lies beyond the diagonal is NaN and is not read."""
    rng, n = np.random.default_rng(4), 13
    part, other = (np.tril, np.triu) if uplo == "L" else (np.triu, np.tril)
    A = part(rng.integers(-3, 4, (40, n, n)).astype(float))
    B = rng.integers(-3, 4, (40, n, 3)).astype(float)
    given = A + other(np.full((n, n), np.nan), 1 if uplo == "L" else -1)
    axes = {"row": (0, 1, 2), "column": (0, 2, 1), "batch last": (1, 2, 0)}[layout]
    given = np.ascontiguousarray(given.transpose(axes)).transpose(np.argsort(axes))
    assert np.array_equal(ms.blas.trmm(given, B, uplo=uplo), A @ B)
    assert not isinstance(ms.plan("trmm", given, B, uplo=uplo).choice.route, Library)
    assert np.array_equal(NUMPY.triangle(given, uplo == "L"), A)


def test_places_of_one_triangle_are_checked_once(monkeypatch: pytest.MonkeyPatch, no_plans: None) -> None:
    """Checks took longer than the products of small matrices; other shapes and read-only places are checked."""
    checked: list[Any] = []
    real = rank_call._check_place
    monkeypatch.setattr(rank_call, "_check_place", lambda *given: checked.append(given) or real(*given))
    A = np.arange(24.0).reshape(2, 3, 4)
    out = np.zeros((2, 3, 3))
    for _ in range(3):
        ms.blas.syrk(A, out=out)
    assert len(checked) == 1 and np.array_equal(np.tril(out), np.tril(A @ A.swapaxes(1, 2)))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        ms.blas.syrk(A, out=out)
    with pytest.raises(ValueError, match="shape"):
        ms.blas.syrk(A, out=np.zeros((2, 4, 4)))


def test_long_lists_are_not_left_to_a_loop() -> None:
    """On CPUs a loop over lists of small matrices waits for the interpreter."""
    request = Request.of(CpuBackend(), "gemm", may_hand_over=True)
    assert batched_rules.lists_one_by_one(request, 1000) is None


@pytest.mark.parametrize("lead", [(), (3,), (2, 1)])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 9), (9, 1), (5, 3), (40, 30), (0, 9), (9, 0)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64", "bool"])
def test_outer_products_by_numpy_are_products_of_entries(
    lead: tuple[int, ...], rows: int, columns: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy's matmul has a scalar loop for depth one: 3 ns per entry."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (*lead, *shape)).astype(dtype) for shape in ((rows, 1), (1, columns)))
    wanted, out = np.matmul(a, b), np.zeros((*lead, rows, columns), dtype)
    monkeypatch.setattr(np, "matmul", None if columns > 8 or 1 in (rows, columns) else np.matmul)
    found = NUMPY.matmul(a, b)
    assert found.dtype == wanted.dtype and np.array_equal(found, wanted)
    assert NUMPY.matmul(a, b, out) is out and np.array_equal(out, wanted)


def test_vectors_are_no_outer_products() -> None:
    a, b = np.ones((4, 1)), np.ones(1)
    assert NUMPY.matmul(a, b).shape == (4,) and NUMPY.matmul(b, np.ones((1, 9))).shape == (9,)
    assert NUMPY.matmul(np.ones((2, 4, 1)), np.ones((1, 9))).shape == (2, 4, 9)
