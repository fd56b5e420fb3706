"""Eigenvalues and singular values of ragged batches: padded classes on GPUs, LAPACK on CPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from linalg_cases import normal
from ragged_cases import host
from two_sided_cases import KINDS, check_eigh, check_svd, general, hermitian

import mansard as ms
from mansard import testing
from mansard.backends.cpu import CpuBackend
from mansard.operations import ragged_classes

pytestmark = pytest.mark.usefixtures("no_plans")
linalg = ms.linalg
ORDERS = (9, 2, 5, 8, 3)  # of which the largest has kernels that other tests compile, too


@pytest.fixture
def one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """All orders in one class of nine rows, the smallest matrices with the most padding."""
    monkeypatch.setattr(ragged_classes, "bounds_of", lambda sizes: np.full_like(sizes, 9))


def batch(matrices: list[Any], backend: str) -> Any:
    xp: Any = testing.array_module(backend)
    return ms.Ragged.from_list([xp.asarray(one) for one in matrices])


@pytest.mark.usefixtures("one_class")
def test_eigenvectors_of_padded_classes(gpu_backend: str) -> None:
    """Of deficient, definite and zero matrices, too, whose eigenvalues are those of the padding."""
    rng = np.random.default_rng(0)
    given = [hermitian(rng, kind, n, "float64") for n in ORDERS for kind in KINDS]
    lower = [np.tril(one) + np.triu(np.full_like(one, np.nan), 1) for one in given]
    a = batch(lower, gpu_backend)
    w, z, info = linalg.eigh_ex(a, backend=gpu_backend)
    values = linalg.eigvalsh(a, backend=gpu_backend)
    assert not host(info).any() and z.shapes == a.shapes
    for i, one in enumerate(given):
        check_eigh(one, host(w[i]), host(z[i]), (i, one.shape))
        check_eigh(one, host(values[i]), host(z[i]), (i, one.shape))


@pytest.mark.usefixtures("one_class")
def test_singular_vectors_of_padded_classes(gpu_backend: str) -> None:
    rng = np.random.default_rng(1)
    given = [general(rng, kind, n, n, "float64") for n in ORDERS for kind in KINDS]
    a = batch(given, gpu_backend)
    U, s, Vh, info = linalg.svd_ex(a, driver="qr", backend=gpu_backend)
    values = linalg.svdvals(a, driver="qr", backend=gpu_backend)
    assert not host(info).any()
    for i, one in enumerate(given):
        check_svd(one, host(U[i]), host(s[i]), host(Vh[i]), (i, one.shape))
        check_svd(one, host(U[i]), host(values[i]), host(Vh[i]), (i, one.shape))


@pytest.mark.usefixtures("one_class")
def test_bad_matrices_of_a_class_stay_alone(gpu_backend: str) -> None:
    """`info` counts the rows of the matrix, not those of its stack; matrices without entries have no values."""
    given = [hermitian(np.random.default_rng(n), "random", n, "float64") for n in (4, 0, 3, 9)]
    given[2][2, 0] = np.nan
    a = batch(given, gpu_backend)
    w, z, info = linalg.eigh_ex(a, backend=gpu_backend)
    assert host(info).tolist() == [0, 0, 4, 0] and host(w[1]).shape == (0,)
    assert np.isnan(host(w[2])).all() and np.isnan(host(z[2])).all()
    for i in (0, 3):
        check_eigh(given[i], host(w[i]), host(z[i]), i)
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[2\]"):
        linalg.eigvalsh(a, backend=gpu_backend)
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        linalg.eigvalsh(batch([np.ones((2, 3)), np.ones((2, 2))], gpu_backend), backend=gpu_backend)


def test_tiny_matrices_have_no_padding_beside_singular_vectors(gpu_backend: str) -> None:
    """Jacobi's method would complete U by the padding's rows; eigenvectors of a class of four rows are right."""
    rng = np.random.default_rng(3)
    given = [hermitian(rng, kind, n, "float64") for n in (2, 3) for kind in ("zero", "deficient", "signs", "minus")]
    a = batch(given, gpu_backend)
    w, z = linalg.eigh(a, backend=gpu_backend)
    U, s, Vh = linalg.svd(a, backend=gpu_backend)
    for i, one in enumerate(given):
        check_eigh(one, host(w[i]), host(z[i]), i)
        check_svd(one, host(U[i]), host(s[i]), host(Vh[i]), i)


@needs_cpu
def test_cpus_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of which there are many matrices, or one, are LAPACK's, in ragged batches and in lists."""
    monkeypatch.setattr(CpuBackend, "prepare", lambda *_: pytest.fail("a kernel was compiled"))
    rng = np.random.default_rng(4)
    squares = [hermitian(rng, KINDS[i % len(KINDS)], 1 + i % 7, "float64") for i in range(250)]
    for form in (list, ms.Ragged.from_list):
        w, z = linalg.eigh(form(squares))
        values = linalg.eigvalsh(form(squares), "U")
        for i, one in enumerate(squares):
            check_eigh(one, w[i], z[i], i)
            check_eigh(one, values[i], z[i], i)
    for dtype in ("float32", "complex128"):
        many = [normal(rng, (1 + i % 3, 1 + i % 4), dtype) for i in range(60)]
        for full in (False, True):
            U, s, Vh = linalg.svd(ms.Ragged.from_list(many), full)
            for i, one in enumerate(many):
                rows, columns = one.shape
                assert U[i].shape == (rows, rows if full else min(rows, columns))
                check_svd(one, U[i][:, : len(s[i])], s[i], Vh[i][: len(s[i])], (i, one.shape))
    tall = [normal(rng, (3 + i % 3, 1 + i % 4), "float64") for i in range(40)]
    right = [normal(rng, (len(one), 2), "float64") for one in tall]
    x, rest, ranks, values = linalg.lstsq(tall, right)
    for i, (one, b) in enumerate(zip(tall, right, strict=True)):
        expected = np.linalg.lstsq(one, b, rcond=None)
        assert np.allclose(x[i], expected[0]) and ranks[i] == expected[2] and np.allclose(values[i], expected[3])
        assert np.allclose(rest[i], ((b - one @ expected[0]) ** 2).sum(0))
