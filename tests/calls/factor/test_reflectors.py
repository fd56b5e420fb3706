"""Products with Q from its reflectors against Q that was formed; exchanges of rows in LAPACK's order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from conftest import needs_cpu

import mansard as ms

pytestmark = needs_cpu
RNG = np.random.default_rng(3)


def normal(dtype: str, *shape: int) -> Any:
    made = RNG.standard_normal(shape)
    return (made + 1j * RNG.standard_normal(shape)).astype(dtype) if "complex" in dtype else made.astype(dtype)


@pytest.mark.parametrize(("rows", "columns", "dtype"), [(3, 5, "complex128"), (40, 40, "float64")])
def test_products_with_q(rows: int, columns: int, dtype: str) -> None:
    a = normal(dtype, 4, rows, columns)
    h, tau = np.linalg.qr(a, mode="raw")
    Q = np.stack([scipy.linalg.qr(one)[0] for one in a])
    c, bound = normal(dtype, 4, rows, 2), 8 * rows * np.finfo(dtype).eps
    row = np.ascontiguousarray(c.swapaxes(1, 2))
    QH = Q.conj().swapaxes(1, 2)
    size = max(1, abs(c).max()) * rows**0.5
    for found, expected in (
        (ms.linalg.ormqr(h, tau, c), Q @ c), (ms.linalg.ormqr(h, tau, c, trans="C"), QH @ c),
        (ms.linalg.ormqr(h, tau, row, left=False), row @ Q),
        (ms.linalg.ormqr(h, tau, row, left=False, trans="C"), row @ QH),
        (ms.linalg.ormqr(h, tau, c[0]), Q @ c[0]), (ms.linalg.ormqr(h[0], tau[0], c), Q[0] @ c),
        (ms.linalg.ormqr(list(h), list(tau), list(c)), Q @ c),
        (ms.linalg.ormqr(h[0], tau[0], c[0, :, 0]), Q[0] @ c[0, :, 0]),
    ):  # fmt: skip
        assert np.shape(found) == expected.shape and abs(np.asarray(found) - expected).max() <= bound * size
    assert ms.linalg.ormqr(h, tau, c, trans="C", out=c) is c and abs(Q @ c - row.swapaxes(1, 2)).max() <= bound * size


def test_own_reflectors_give_r() -> None:
    a = normal("float64", 40, 6, 4)
    h, tau = ms.linalg.qr(a, mode="raw")
    found = ms.linalg.ormqr(h, tau, a, trans="T")
    assert abs(np.tril(found, -1)).max() < 1e-14 and np.allclose(found[:, :4], np.triu(h.swapaxes(1, 2)[:, :4]))


@pytest.mark.parametrize("rows", [1, 4, 40])
def test_exchanges_are_lapacks(rows: int) -> None:
    a = RNG.integers(-9, 9, (7, rows, 3)).astype(float)
    pivots = np.stack([RNG.integers(np.arange(rows), rows) for _ in range(7)]).astype(np.int32)
    expected = np.stack([scipy.linalg.lapack.dlaswp(one, piv) for one, piv in zip(a, pivots, strict=True)])
    found = ms.linalg.laswp(a, pivots)
    assert (found == expected).all() and (ms.linalg.laswp(found, pivots, inverse=True) == a).all()
    assert (ms.linalg.laswp(a[0], pivots) == np.stack([scipy.linalg.lapack.dlaswp(a[0], p) for p in pivots])).all()
    assert (ms.linalg.laswp(a, pivots[0])[3] == scipy.linalg.lapack.dlaswp(a[3], pivots[0])).all()
    assert ms.linalg.laswp(a, pivots, out=a) is a and (a == expected).all()


def test_errors_name_the_argument() -> None:
    a = np.ones((2, 3, 3))
    h, tau = np.linalg.qr(a, mode="raw")
    with pytest.raises(ValueError, match="h has reflectors of 3 entries and c 2 rows"):
        ms.linalg.ormqr(h, tau, a[:, :2])
    with pytest.raises(ValueError, match="trans='T'"):
        ms.linalg.ormqr(h + 0j, tau + 0j, a + 0j, trans="T")
    with pytest.raises(ValueError, match="piv names rows from 0 to 3"):
        ms.linalg.laswp(a, np.array([0, 3]))
    with pytest.raises(TypeError, match="pivots are integers"):
        ms.linalg.laswp(a, np.zeros(2))
