"""`svd`, `svdvals` and `bidiagonalize`: accuracy on all kinds and shapes of matrices, `info`, neighbours, drivers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from batched_cases import DTYPES
from conftest import usable
from linalg_cases import adjoint, normal
from two_sided_cases import (
    KINDS,
    LAPACK,
    check_orthonormal,
    check_product,
    check_singular_values,
    check_svd,
    general,
    hermitian,
    wide,
)

import mansard as ms
from mansard import testing
from mansard.errors import UnsupportedProblem
from mansard.operations.factor.two_sided import hold, plan, shapes
from mansard.operations.factor.two_sided.task import Sizes, Task

pytestmark = pytest.mark.usefixtures("no_plans")
linalg = ms.linalg
BACKENDS = ("cpu", "emulated", "cuda")


def moved(array: Any, backend: str) -> Any:
    return testing.array_module(backend).array(array)


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


def cases(backend: str) -> list[tuple[str, int, int]]:
    """Dtypes and shapes; fewer where kernels take long to compile or to run."""
    if backend == "cuda":
        sizes = ((1, 1), (2, 2), (3, 3), (8, 8), (16, 16), (33, 33), (64, 64), (128, 128), (9, 4), (40, 12), (5, 17))
        return [(dtype, *shape) for dtype in DTYPES for shape in sizes]
    if backend == "cpu":
        return [("float64", 6, 6)]
    return [("float64", 6, 6), ("complex64", 3, 3), ("float64", 9, 6), ("float64", 6, 9), ("float32", 9, 9)]


@pytest.mark.parametrize("backend, dtype, rows, columns", [(name, *case) for name in BACKENDS for case in cases(name)])
def test_all_kinds_in_one_batch(backend: str, dtype: str, rows: int, columns: int) -> None:
    usable(backend)
    rng = np.random.default_rng(rows)
    A = np.stack([general(rng, kind, rows, columns, dtype) for kind in KINDS])
    found = [host(one) for one in linalg.svd(moved(A, backend), False, backend=backend)]
    values = host(linalg.svdvals(moved(A, backend), backend=backend))
    for i, kind in enumerate(KINDS):
        check_svd(A[i], *(one[i] for one in found), (dtype, rows, columns, kind))
        check_singular_values(A[i], values[i], (dtype, rows, columns, kind))


def test_all_kinds_by_rotations(gpu_backend: str) -> None:
    """A thread per matrix finds values and records rotations, both back transformations apply them."""
    A = np.stack([general(np.random.default_rng(n), kind, 13, 13, "float64") for n, kind in enumerate(KINDS)])
    found = [host(one) for one in linalg.svd(moved(A, gpu_backend), driver="qr", backend=gpu_backend)]
    values = host(linalg.svdvals(moved(A, gpu_backend), driver="qr", backend=gpu_backend))
    for i, kind in enumerate(KINDS):
        check_svd(A[i], *(one[i] for one in found), kind)
        check_singular_values(A[i], values[i], kind)


def known_spectra(n: int) -> tuple[Any, Any]:
    """Singular values from 1 to 1 / kappa, kappa = 1, 1e2, ..., 1e16, and matrices of these, made from reflectors in
    extended precision."""
    rng, unit = np.random.default_rng(8), np.eye(n, dtype="longdouble")
    values = np.array([np.logspace(0, -k, n) for k in range(0, 18, 2)]).astype("longdouble")
    A = values[:, :, None] * unit
    for _ in range(3):
        left, right = (unit - 2 * u[:, :, None] * u[:, None, :] / (u * u).sum(1)[:, None, None]
                       for u in rng.standard_normal((2, len(values), n)).astype("longdouble"))  # fmt: skip
        A = left @ A @ right
    return A.astype("float64"), values


@pytest.mark.parametrize("driver", ["auto", "qr"])
def test_known_spectra_over_condition_numbers(backend: str, driver: str) -> None:
    """Values within 16 eps of the largest, whatever the smallest; with vectors and without."""
    A, values = known_spectra(6 if backend == "cpu" else 13)
    for vectors in (True, False):
        found = linalg.svd(moved(A, backend), compute_uv=vectors, driver=driver, backend=backend)
        off = np.abs(host(found[1] if vectors else found) - values)
        assert (off <= 16 * np.finfo("float64").eps).all(), (vectors, off.max())


@pytest.mark.parametrize("full", [True, False])
def test_shapes(full: bool) -> None:
    rng = np.random.default_rng(1)
    for rows, columns in ((1, 1), (1, 4), (4, 1), (5, 4), (4, 5), (30, 3), (3, 30)):
        A = normal(rng, (2, 3, rows, columns), "complex128")
        U, s, Vh = linalg.svd(A, full)
        K = min(rows, columns)
        assert U.shape == (2, 3, rows, rows if full else K) and Vh.shape == (2, 3, columns if full else K, columns)
        check_svd(A, U, s, Vh, (rows, columns, full), LAPACK)


def test_tall_and_wide_matrices_go_through_qr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the work is worth it; singular vectors are those of the whole matrix."""
    monkeypatch.setattr(shapes, "_WORTH", 0)
    monkeypatch.setattr(shapes, "sparing", lambda kind, A, backend: "reference")  # LAPACK's QR: nothing to compile
    monkeypatch.setattr(plan, "sparing", shapes.sparing)
    monkeypatch.setattr(hold, "sparing", shapes.sparing)
    for dtype, rows, columns in (("float64", 12, 4), ("float64", 4, 12), ("complex64", 9, 3)):
        A = np.stack([general(np.random.default_rng(2), kind, rows, columns, dtype) for kind in KINDS])
        for full in (True, False):
            check_svd(A, *linalg.svd(A, full), (rows, columns, full), LAPACK)
        assert "QR first" in ms.plan("svd", A).explain() and "qr " in ms.plan("svd", A).explain()
    bad = A.copy()
    bad[2, 1, 1] = np.nan
    assert linalg.svd_ex(bad).info.tolist() == [0, 0, 4, *(0 for _ in KINDS[3:])]
    assert np.array_equal(linalg.svdvals_ex(bad).info, linalg.svd_ex(bad).info)


def test_the_way_of_a_shape_is_decided_in_one_place() -> None:
    task, shape = Task("svd"), shapes.shape_of
    assert shape(task, Sizes(9, 9), 1, False, True).name == "direct"
    assert shape(task, Sizes(10, 9), 1000, False, False).name == "direct"
    assert shape(task, Sizes(11, 9), 1000, False, False).name == "triangle"
    assert shape(task, Sizes(10, 9), 1000, False, True).name == "triangle"
    assert shape(task, Sizes(8, 9), 1000, False, False).name == "adjoint"
    assert shape(task, Sizes(50, 2), 10, True, False).name == "direct"  # little work: LAPACK's own QR
    assert [shape(task, Sizes(m, 16), 99, True, True, 128).name for m in (18, 19)] == ["padded", "triangle"]
    assert shape(task, Sizes(128, 120), 99, True, True, 128).name == "padded"
    assert shape(task, Sizes(129, 120), 99, True, True, 128).name == "triangle"
    assert shape(Task("bidiagonalize"), Sizes(17, 16), 99, False, True).name == "triangle"


def test_bad_matrices_keep_to_themselves(backend: str) -> None:
    rng = np.random.default_rng(3)
    for rows, columns in ((6, 6), (9, 9))[: 1 if backend == "cpu" else 2]:
        A = normal(rng, (70, rows, columns), "float64")
        bad = A.copy()
        bad[3, 2, 1], bad[40, 0, 0], bad[69, -1, -1] = np.nan, np.inf, -np.inf
        U, s, Vh, info = map(host, linalg.svd_ex(moved(bad, backend), backend=backend))
        wrong = np.isin(np.arange(70), (3, 40, 69))
        assert info.dtype == np.int32 and (info == np.where(wrong, columns + 1, 0)).all()
        assert np.isnan(s[wrong]).all()
        alone = [host(one) for one in linalg.svd(moved(A[:3], backend), backend=backend)]
        for one, other in zip((U, s, Vh), alone, strict=True):
            assert np.array_equal(one[:3], other)
        with pytest.raises(np.linalg.LinAlgError, match=r"a\[3\]"):
            linalg.svd(moved(bad, backend), backend=backend)


@pytest.mark.parametrize("driver", ["auto", "qr", "jacobi"])
def test_drivers(driver: str) -> None:
    for dtype, shape in (("float64", (19, 17)), ("float32", (17, 19)), ("complex128", (17, 17)), ("float64", (6, 6))):
        A = normal(np.random.default_rng(4), (1, *shape), dtype)  # of `auto`, LAPACK's
        for full in (True, False):
            check_svd(A, *linalg.svd(A, full, driver=driver), (driver, dtype, full), LAPACK)
        check_singular_values(A, linalg.svdvals(A, driver=driver), driver, LAPACK)
    with pytest.raises(UnsupportedProblem, match="use driver='auto'") if driver == "jacobi" else nullcontext():
        linalg.svdvals(np.eye(129, dtype="complex64"), driver=driver)


def test_jacobi_finds_small_values_of_graded_columns() -> None:
    """To their last digits, where other methods find the largest digits of the matrix."""
    rng = np.random.default_rng(5)
    scale = 10.0 ** -np.arange(0, 40, 10)
    orthogonal = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    s = linalg.svdvals(orthogonal * scale, driver="jacobi", backend="reference")
    assert (np.abs(s / scale - 1) < 1e-12).all()


def test_hermitian() -> None:
    A = np.stack([hermitian(np.random.default_rng(i), "random", 4, "complex128") for i in range(5)])
    A[4] = np.diag([0.0, -3, 2, 0])
    check_svd(A, *linalg.svd(A, hermitian=True), "hermitian", LAPACK)
    check_singular_values(A, linalg.svd(A, compute_uv=False, hermitian=True), "hermitian", LAPACK)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bidiagonalize(dtype: str) -> None:
    rng = np.random.default_rng(6)
    for rows, columns in ((1, 1), (3, 3), (7, 4), (4, 7), (1, 3), (3, 1)):
        for kind in ("random", "deficient", "huge", "tiny", "zero"):
            A, K = general(rng, kind, rows, columns, dtype), min(rows, columns)
            U, d, e, Vh = linalg.bidiagonalize(A)
            assert U.shape == (rows, K) and Vh.shape == (K, columns) and d.shape == (K,) and e.shape == (K - 1,)
            assert not np.iscomplexobj(d) and not np.iscomplexobj(e)
            B = np.diag(wide(d)) + np.diag(wide(e), 1 if rows >= columns else -1)
            check_orthonormal(U, (dtype, rows, columns, kind))
            check_orthonormal(adjoint(Vh), (dtype, rows, columns, kind))
            check_product(A, wide(U) @ B @ wide(Vh), (dtype, rows, columns, kind))
    d, e = linalg.bidiagonalize(A[None], compute_uv=False)
    assert d.shape == (1, 1) and e.shape == (1, 0)


def test_sizes_of_zero() -> None:
    for shape in ((0, 0), (3, 0), (0, 3), (2, 0, 4), (0, 5, 2)):
        *lead, rows, columns = shape
        for full in (True, False):
            U, s, Vh = linalg.svd(np.zeros(shape, "complex64"), full)
            wanted = np.linalg.svd(np.zeros(shape, "complex64"), full)
            for one, other in zip((U, s, Vh), wanted, strict=True):
                assert one.shape == other.shape and one.dtype == other.dtype and np.array_equal(one, other)
        assert linalg.svdvals(np.zeros(shape)).shape == (*lead, min(rows, columns))
        assert linalg.bidiagonalize(np.zeros(shape)).e.shape == (*lead, max(0, min(rows, columns) - 1))


def test_integers_and_lists() -> None:
    A = np.arange(12).reshape(2, 3, 2)
    check_svd(A.astype("float64"), *linalg.svd(A), "integers", LAPACK)
    U, s, Vh = linalg.svd(list(A))
    assert isinstance(U, list) and isinstance(s, list) and len(Vh) == 2
    check_svd(A.astype("float64"), np.stack(U), np.stack(s), np.stack(Vh), "lists", LAPACK)
    assert linalg.svd([]) == ([], [], [])
