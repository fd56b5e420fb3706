"""Products with Q from its reflectors against Q that was formed; exchanges of rows in LAPACK's order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from conftest import needs_cpu
from sparing import rotated

import mansard as ms

pytestmark = needs_cpu
RNG = np.random.default_rng(3)


def normal(dtype: str, *shape: int) -> Any:
    made = RNG.standard_normal(shape)
    return (made + 1j * RNG.standard_normal(shape)).astype(dtype) if "complex" in dtype else made.astype(dtype)


@rotated(3)
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


@rotated(3)
@pytest.mark.parametrize(("rows", "columns", "dtype"), [(5, 3, "complex64"), (40, 37, "float64"), (3, 3, "float32")])
def test_blocks_of_reflectors_are_lapacks(rows: int, columns: int, dtype: str) -> None:
    """One block of LAPACK's ormqr is a larfb; the halves that are not read hold NaN."""
    h, tau = np.linalg.qr(normal(dtype, 4, rows, columns), mode="raw")
    v = h.swapaxes(1, 2).copy()
    c, name = normal(dtype, 4, rows, 2), "unmqr" if "complex" in dtype else "ormqr"
    apply = scipy.linalg.lapack.get_lapack_funcs(name, (v,))
    v[:, *np.triu_indices(rows, 0, columns)] = np.nan
    t = ms.linalg.larft(v, tau)
    assert (np.tril(t, -1) == 0).all()
    t[:, *np.tril_indices(columns, -1)] = np.nan
    adjoint, bound = "C" if "complex" in dtype else "T", 16 * rows * np.finfo(dtype).eps * abs(c).max()
    row = np.ascontiguousarray(c.swapaxes(1, 2))
    for trans in ("N", adjoint):
        above = [apply("L", trans, h[i].T, tau[i], c[i], 64 * rows)[0] for i in range(4)]
        before = [apply("R", trans, h[i].T, tau[i], row[i], 64 * rows)[0] for i in range(4)]
        assert abs(ms.linalg.larfb(v, t, c, trans=trans) - above).max() <= bound
        assert abs(ms.linalg.larfb(v, t, row, left=False, trans=trans) - before).max() <= bound
        assert abs(ms.linalg.larfb(v[0], t[0], c[0, :, 0], trans=trans) - above[0][:, 0]).max() <= bound
        one = ms.linalg.larfb(v[1], t[1], row[1, 0], left=False, trans=trans)
        assert abs(one - before[1][0]).max() <= bound
    found = ms.linalg.larfb(list(v), list(t), list(c), trans=adjoint)
    assert abs(np.asarray(found) - above).max() <= bound
    assert abs(ms.linalg.larfb(v[0], t[0], c)[0] - ms.linalg.larfb(v, t, c)[0]).max() <= bound
    assert ms.linalg.larfb(v, t, c, trans=adjoint, out=c) is c and abs(c - above).max() <= bound


@rotated(3)
def test_lists_and_ragged_batches_of_different_shapes() -> None:
    made = [normal("float64", *shape) for shape in ((5, 2), (3, 3), (5, 2))]
    right = [normal("float64", len(one), count) for one, count in zip(made, (2, 1, 2), strict=True)]
    expected = [np.linalg.qr(one, mode="complete")[0] @ c for one, c in zip(made, right, strict=True)]
    h, tau = (list(them) for them in zip(*(np.linalg.qr(one, mode="raw") for one in made), strict=True))
    v = [one.T[:, : numbers.size] for one, numbers in zip(h, tau, strict=True)]
    t = ms.linalg.larft(v, tau)
    for found in (ms.linalg.ormqr(h, tau, right), ms.linalg.larfb(v, t, right)):
        assert all(abs(one - wanted).max() < 1e-14 for one, wanted in zip(found, expected, strict=True))
    h, tau = ms.linalg.qr(ms.Ragged.from_list(made), mode="raw")
    found = ms.linalg.ormqr(h, tau, ms.Ragged.from_list(right)).to_list()
    for one, factors, c in zip(found, (ms.linalg.qr(one, mode="raw") for one in made), right, strict=True):
        assert abs(one - ms.linalg.ormqr(*factors, c)).max() < 1e-14


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
    with pytest.raises(ValueError, match="v has 3 reflectors of 2 entries"):
        ms.linalg.larft(a[:, :2], tau)
    with pytest.raises(ValueError, match="one number for each"):
        ms.linalg.larft(a, tau[:, :2])
    with pytest.raises(ValueError, match="t has 2 rows and v 3 reflectors"):
        ms.linalg.larfb(a, a[:, :2, :2], a)
    with pytest.raises(ValueError, match="v has reflectors of 3 entries and c 2 columns"):
        ms.linalg.larfb(a, a, a[:, :, :2], left=False)
    with pytest.raises(ValueError, match=r"v has leading dimensions \(2,\) and t \(2,\) and c \(3,\)"):
        ms.linalg.larfb(a, a, np.ones((3, 3, 3)))
    with pytest.raises(ValueError, match="trans='T'"):
        ms.linalg.ormqr(h + 0j, tau + 0j, a + 0j, trans="T")
    with pytest.raises(ValueError, match="piv names rows from 0 to 3"):
        ms.linalg.laswp(a, np.array([0, 3]))
    with pytest.raises(TypeError, match="pivots are integers"):
        ms.linalg.laswp(a, np.zeros(2))
