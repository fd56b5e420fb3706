"""`eigh`, `eigvalsh` and `tridiagonalize`: accuracy on all kinds of matrices, triangles, `info`, drivers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batched_cases import DTYPES
from conftest import usable
from linalg_cases import adjoint, normal
from two_sided_cases import (
    KINDS,
    LAPACK,
    check_eigenvalues,
    check_eigh,
    check_orthonormal,
    check_product,
    hermitian,
    wide,
)

import mansard as ms
from mansard import testing
from mansard.arrays.kinds import KINDS as KINDS_OF_ARRAYS
from mansard.errors import UnsupportedProblem
from mansard.operations.factor.two_sided import householder
from mansard.operations.factor.two_sided.task import Task

pytestmark = pytest.mark.usefixtures("no_plans")
linalg = ms.linalg
BACKENDS = ("cpu", "emulated", "cuda")


def moved(array: Any, backend: str) -> Any:
    return testing.array_module(backend).array(array)


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


def cases(backend: str) -> list[tuple[str, int]]:
    """Dtypes and orders; fewer where kernels take long to compile or to run."""
    if backend == "cuda":  # complex128 beyond 96 rows is CuPy's, whose eigenvalues were seen to be off by 350 eps
        widest = {"complex128": 96}
        return [(dtype, n) for dtype in DTYPES for n in (1, 2, 3, 8, 16, 31, 33, 64, widest.get(dtype, 128))]
    if backend == "cpu":
        return [("float64", 6), ("float64", 33)]
    return [("float64", 6), ("complex64", 3), ("float32", 9), ("float64", 33)]


@pytest.mark.parametrize("backend, dtype, n", [(name, *case) for name in BACKENDS for case in cases(name)])
def test_all_kinds_in_one_batch(backend: str, dtype: str, n: int) -> None:
    usable(backend)
    A = np.stack([hermitian(np.random.default_rng(n), kind, n, dtype) for kind in KINDS])
    w, z = map(host, linalg.eigh(moved(A, backend), backend=backend))
    values = host(linalg.eigvalsh(moved(A, backend), backend=backend))
    for i, kind in enumerate(KINDS):
        check_eigh(A[i], w[i], z[i], (dtype, n, kind))
        check_eigenvalues(A[i], values[i], (dtype, n, kind))


def test_all_kinds_by_rotations(gpu_backend: str) -> None:
    """A thread per matrix finds values and records rotations, the back transformation applies them."""
    A = np.stack([hermitian(np.random.default_rng(n), kind, 13, "float64") for n, kind in enumerate(KINDS)])
    w, z = map(host, linalg.eigh(moved(A, gpu_backend), driver="qr", backend=gpu_backend))
    values = host(linalg.eigvalsh(moved(A, gpu_backend), driver="qr", backend=gpu_backend))
    for i, kind in enumerate(KINDS):
        check_eigh(A[i], w[i], z[i], kind)
        check_eigenvalues(A[i], values[i], kind)


@pytest.mark.parametrize("UPLO", ["L", "U", "l", "u"])
def test_only_the_triangle_is_read(backend: str, UPLO: str) -> None:
    n, dtype = (6, "float64") if backend == "cpu" else (3, "complex64")
    A = np.stack([hermitian(np.random.default_rng(i), "random", n, dtype) for i in range(3)])
    dirty = A.copy()
    dirty[:, *(np.triu_indices(n, 1) if UPLO in "Ll" else np.tril_indices(n, -1))] = np.nan
    w, z = map(host, linalg.eigh(moved(dirty, backend), UPLO, backend=backend))
    check_eigh(A, w, z, UPLO)
    assert np.array_equal(host(linalg.eigh_ex(moved(dirty, backend), UPLO, backend=backend).eigenvalues), w)


def test_bad_matrices_keep_to_themselves(backend: str) -> None:
    rng = np.random.default_rng(1)
    for n in (6, 9)[: 1 if backend == "cpu" else 2]:
        A = np.stack([hermitian(rng, "random", n, "float64") for _ in range(70)])
        bad = A.copy()
        bad[3, 2, 1], bad[40, 0, 0], bad[69, n - 1, 0] = np.nan, np.inf, -np.inf
        bad[:, 0, n - 1] = np.nan  # in the triangle that is not read
        w, z, info = map(host, linalg.eigh_ex(moved(bad, backend), backend=backend))
        wrong = np.isin(np.arange(70), (3, 40, 69))
        assert info.dtype == np.int32 and (info == np.where(wrong, n + 1, 0)).all()
        assert np.isnan(w[wrong]).all()
        alone = linalg.eigh(moved(A[:3], backend), backend=backend)
        assert np.array_equal(w[:3], host(alone.eigenvalues)) and np.array_equal(z[:3], host(alone.eigenvectors))
        assert (host(linalg.eigvalsh_ex(moved(bad, backend), backend=backend).info) == info).all()
        with pytest.raises(np.linalg.LinAlgError, match=r"a\[3\]"):
            linalg.eigh(moved(bad, backend), backend=backend)


def test_same_bits_every_time(backend: str) -> None:
    A = np.stack([hermitian(np.random.default_rng(i), KINDS[i % 4], 6, "float64") for i in range(9)])
    first = linalg.eigh(moved(A, backend), backend=backend)
    again = linalg.eigh(moved(A[::-1].copy(), backend), backend=backend)
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(host(one), host(other)[::-1])


@pytest.mark.parametrize("driver", ["auto", "qr", "jacobi"])
def test_drivers(driver: str) -> None:
    A = hermitian(np.random.default_rng(0), "random", 17, "complex128")[None]  # of `auto`, LAPACK's
    w, z = linalg.eigh(A, driver=driver)
    check_eigh(A, w, z, driver, 1 if driver == "jacobi" else LAPACK)
    check_eigenvalues(A, linalg.eigvalsh(A, driver=driver), driver, LAPACK)


def test_nobody_has_jacobis_method_for_large_matrices() -> None:
    with pytest.raises(UnsupportedProblem, match="use driver='auto'"):
        linalg.eigh(np.eye(129), driver="jacobi")


@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonalize(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for n in (1, 2, 3, 7):
        for kind in ("random", "deficient", "huge", "tiny", "zero", "wilkinson"):
            A = hermitian(rng, kind, n, dtype)
            dirty = A.copy()
            dirty[np.tril_indices(n, -1)] = np.nan
            Q, d, e = linalg.tridiagonalize(dirty, "U")
            assert d.shape == (n,) and e.shape == (n - 1,) and not np.iscomplexobj(d) and not np.iscomplexobj(e)
            T = np.diag(wide(d)) + np.diag(wide(e), 1) + np.diag(wide(e), -1)
            check_orthonormal(Q, (dtype, n, kind))
            check_product(A, wide(Q) @ T @ adjoint(wide(Q)), (dtype, n, kind))
            check_eigenvalues(A, np.linalg.eigvalsh(T.astype("float64")).astype(d.dtype), (dtype, n, kind))
    d, e = linalg.tridiagonalize(A[None], "U", compute_q=False)
    assert d.shape == (1, 7) and e.shape == (1, 6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reflections_by_the_array_library(dtype: str) -> None:
    """As GPUs without a kernel have them; tried on NumPy arrays."""
    rng = np.random.default_rng(3)
    for n in (1, 2, 5):
        A = np.stack([hermitian(rng, kind, n, dtype) for kind in ("random", "deficient", "huge", "zero")])
        found = householder.answer(KINDS_OF_ARRAYS["numpy"], Task("tridiagonalize"), A)
        Q, d, e = (wide(found[part]) for part in "QDE")
        T = np.stack([np.diag(d[i]) + np.diag(e[i], 1) + np.diag(e[i], -1) for i in range(len(A))])
        check_orthonormal(found["Q"], (dtype, n))
        check_product(A, Q @ T @ adjoint(Q), (dtype, n))
        found = householder.answer(KINDS_OF_ARRAYS["numpy"], Task("bidiagonalize"), A)
        B = np.stack([np.diag(wide(d)) + np.diag(wide(e), 1) for d, e in zip(found["D"], found["E"], strict=True)])
        check_product(A, wide(found["U"]) @ B @ wide(found["VH"]), (dtype, n))


def test_bad_matrices_have_no_tridiagonal_form() -> None:
    A = np.stack([hermitian(np.random.default_rng(i), "random", 5, "float64") for i in range(3)])
    A[1, 3, 2], A[2, 0, 4] = np.nan, np.inf  # the second one in the triangle that is not read
    for one in linalg.tridiagonalize(A):
        assert np.isnan(one[1]).all() and np.isfinite(one[[0, 2]]).all()
    for one in linalg.bidiagonalize(A[:, :, :4]):
        assert np.isnan(one[1]).all() and np.isfinite(one[[0, 2]]).all()


def test_arguments_are_checked() -> None:
    A = np.eye(3)
    with pytest.raises(ValueError, match="UPLO='X'"):
        linalg.eigh(A, "X")
    with pytest.raises(ValueError, match="driver='fast' is not one of"):
        linalg.eigvalsh(A, driver="fast")
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        linalg.eigh(np.ones((2, 3)))
    with pytest.raises(np.linalg.LinAlgError, match="a matrix or a stack"):
        linalg.eigh(np.ones(3))
    with pytest.raises(TypeError, match="a has dtype float16"):
        linalg.eigh(A.astype("float16"))


def test_sizes_of_zero_and_one() -> None:
    for shape in ((0, 0), (3, 0, 0), (0, 4, 4), (2, 0, 3, 3)):
        w, z = linalg.eigh(np.zeros(shape, "complex64"))
        assert w.shape == shape[:-1] and w.dtype == np.float32 and z.shape == shape and z.dtype == np.complex64
        assert linalg.eigvalsh(np.zeros(shape)).shape == shape[:-1]
        Q, d, e = linalg.tridiagonalize(np.zeros(shape))
        assert Q.shape == shape and d.shape == shape[:-1] and e.shape == (*shape[:-2], max(0, shape[-1] - 1))
    w, z = linalg.eigh(np.array([[[3]], [[-2]]]))
    assert w.dtype == np.float64 and (w == [[3], [-2]]).all() and (np.abs(z) == 1).all()


def test_values_come_from_any_strides() -> None:
    A = np.stack([hermitian(np.random.default_rng(i), "random", 4, "float64") for i in range(6)])
    wanted = np.linalg.eigvalsh(A)
    apart = np.full((3, 2, 8, 9), np.nan)
    apart[:, :, ::2, ::-3][:, :, :4, :3] = 0
    place = np.full((12, 8, 12), np.nan)[::2, ::-2, 1::3]
    place[...] = A
    fortran = np.asfortranarray(A)
    for one in (place, fortran, A.swapaxes(-1, -2), A.reshape(2, 3, 4, 4).swapaxes(0, 1)):
        expected = wanted if one.ndim == 3 else wanted.reshape(2, 3, 4).swapaxes(0, 1)
        assert np.allclose(linalg.eigvalsh(one), expected, rtol=1e-13, atol=1e-13)
    assert np.allclose(linalg.eigvalsh(list(A)), wanted, rtol=1e-13, atol=1e-13)
    random = normal(np.random.default_rng(5), (2, 3, 3), "float64")
    assert np.allclose(linalg.eigvalsh(random), np.linalg.eigvalsh(random))  # the lower triangle counts
