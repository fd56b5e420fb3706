"""Unblocked panels of Dong's algorithms (papers/dong) in the emulator: factors multiply back to the matrices."""

import numpy as np
import pytest
from orders import in_order

from mansard.backends import emulated
from mansard.compile import cxx
from papers.dong import panels

pytestmark = pytest.mark.skipif(bool(cxx.available()), reason="there is no C++ compiler")
COUNT, N = 3, 40  # a panel of 32 columns and a rest


@pytest.fixture(scope="module")
def columns():
    return panels.Columns(emulated.EmulatedBackend())


def _matrices(operation):
    A = np.random.default_rng(4).standard_normal((COUNT, N, N))
    return A @ A.swapaxes(1, 2) + N * np.eye(N) if operation == "cholesky" else A


def _product(operation, found):
    """The matrices whose factors these are."""
    import scipy.linalg

    F = found["F"]
    if operation == "cholesky":
        assert (np.triu(F, 1) == 0).all()
        return F @ F.swapaxes(1, 2)
    if operation == "qr":
        return np.stack([scipy.linalg.lapack.dormqr("L", "N", f, tau, np.triu(f), 64 * N)[0]
                         for f, tau in zip(F, found["TAU"], strict=True)])  # fmt: skip
    made = (np.tril(F, -1) + np.eye(N)) @ np.triu(F)
    for product, pivots in zip(made, found["PIVOTS"], strict=True):
        for i in reversed(range(N)):
            product[[i, pivots[i]]] = product[[pivots[i], i]]
    return made


@pytest.mark.parametrize("how", ["nonblocked", "classic"])
@pytest.mark.parametrize("operation", ["lu", "cholesky", "qr"])
def test_factors_multiply_back(operation, how, columns):
    A = _matrices(operation)
    with in_order("random"):
        found = panels.run(operation, how, A.copy(), columns, "reference")
    assert (found.get("INFO", np.zeros(1)) == 0).all()
    assert abs(_product(operation, found) - A).max() < 40 * N * np.finfo(float).eps * abs(A).max()
    if operation == "lu":
        assert abs(np.tril(found["F"], -1)).max() <= 1  # the largest entry of a column was the pivot


def test_breakdown_is_reported_where_it_is(columns):
    A = _matrices("cholesky")
    A[1, 5, 5] = -1e3
    assert panels.run("cholesky", "nonblocked", A, columns)["INFO"].tolist() == [0, 6, 0]
    A = np.zeros((2, 4, 4))
    A[1] = np.eye(4)
    assert panels.run("lu", "nonblocked", A, columns)["INFO"].tolist() == [1, 0]


def test_panels_may_be_columns_of_wider_matrices(columns):
    A = np.full((COUNT, 9, 20), np.nan)
    A[:, :, 3:12] = _matrices("lu")[:, :9, :9]
    before = A.copy()
    panels.run("lu", "nonblocked", A[:, :, 3:12], columns)
    assert np.isfinite(A[:, :, 3:12]).all() and (np.isnan(A) == np.isnan(before)).all()
