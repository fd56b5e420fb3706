"""Two-sided factorizations of matrices beyond registers, which are reduced by panels: accuracy and `info`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batched_cases import DTYPES
from conftest import usable
from exact_values import exact_eigenvalues, exact_singular_values
from linalg_cases import adjoint, normal
from two_sided_cases import spectral

import mansard as ms
from mansard import testing
from mansard.operations.factor.two_sided import chunked
from mansard.operations.plans import PLANS

pytestmark = pytest.mark.usefixtures("no_plans")
linalg = ms.linalg
ON_GPU = list(zip(DTYPES * 2, (129, 256, 300, 160, 512, 129, 192, 256), strict=True))
CASES = [*(("cuda", dtype, n, 5) for dtype, n in ON_GPU), ("emulated", "complex128", 97, 1)]


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


def stack(dtype: str, n: int, count: int, hermitian: bool) -> Any:
    """Random matrices; the second one, if there is one, is not finite."""
    A = normal(np.random.default_rng(n), (count, n, n), dtype)
    A = (A + adjoint(A)) / 2 if hermitian else A
    A[1:2, -1, -1] = np.nan
    return A


def run(function: Any, A: Any, backend: str) -> list[Any]:
    """Parts of the finite matrices' results, as NumPy arrays; `info` was looked at."""
    *parts, info = map(host, function(testing.array_module(backend).asarray(A), backend=backend))
    good = np.arange(len(A)) != 1
    assert (info == np.where(good, 0, A.shape[-1] + 1)).all()
    assert all(np.isnan(part[~good]).all() for part in parts)
    return [part[good] for part in parts]


def exact_values(A: Any, hermitian: bool) -> Any:
    """Values of all matrices, of the first one where they take seconds each."""
    some = A[: 1 if A.shape[-1] > 300 else None]
    return (exact_eigenvalues if hermitian else exact_singular_values)(
        some.astype("complex128" if np.iscomplexobj(A) else "float64")
    )


def check_values(A: Any, values: Any, exact: Any) -> None:
    """Within 16 eps, beyond 64 rows n / 4 eps of the largest: sweeps add up their errors."""
    off = np.abs(values[: len(exact)] - exact).max(-1) / np.abs(exact).max(-1) / np.finfo(A.dtype).eps
    assert off.max() <= max(16, A.shape[-1] / 4), (A.dtype, A.shape, off.max())


def check_vectors(A: Any, product: Any, size: Any, *factors: Any) -> None:
    """Residual below 3 n eps, orthogonality below 5 n eps, in spectral norms."""
    n, limit = A.shape[-1], A.shape[-1] * np.finfo(A.dtype).eps
    assert (spectral(product - A) <= 3 * limit * size).all(), (A.dtype, A.shape)
    for Q in factors:
        assert (spectral(adjoint(Q) @ Q - np.eye(n)) <= 5 * limit).all(), (A.dtype, A.shape)


@pytest.mark.parametrize("backend, dtype, n, count", CASES)
def test_eigenvalues_and_eigenvectors(backend: str, dtype: str, n: int, count: int) -> None:
    usable(backend)
    A = stack(dtype, n, count, hermitian=True)
    (w, z), (values,) = (run(function, A, backend) for function in (linalg.eigh_ex, linalg.eigvalsh_ex))
    A = A[np.arange(count) != 1]
    exact = exact_values(A, hermitian=True)
    check_values(A, w, exact)
    check_values(A, values, exact)
    check_vectors(A, (z * w[:, None]) @ adjoint(z), np.abs(w).max(1), z)


@pytest.mark.parametrize("backend, dtype, n, count", CASES)
def test_singular_values_and_vectors(backend: str, dtype: str, n: int, count: int) -> None:
    usable(backend)
    A = stack(dtype, n, count, hermitian=False)
    (u, s, vh), (values,) = (run(function, A, backend) for function in (linalg.svd_ex, linalg.svdvals_ex))
    A = A[np.arange(count) != 1]
    exact = exact_values(A, hermitian=False)
    check_values(A, s, exact)
    check_values(A, values, exact)
    check_vectors(A, (u * s[:, None]) @ vh, s[:, 0], u, vh)


@pytest.mark.parametrize("name", ["svd_ex", "eigh_ex"])
def test_chunks_in_flight_on_cuda(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reductions of one chunk beside the rotations of another give the bits of one chunk, in a graph, too."""
    usable("cuda")
    import cupy as cp

    function, A = getattr(linalg, name), cp.asarray(stack("float64", 129, 300, hermitian=True))
    monkeypatch.setattr(chunked, "flights_of", lambda *_: 1)
    expected = [host(one) for one in function(A)]
    for flights in (2, 3):
        PLANS.forget()
        monkeypatch.setattr(chunked, "flights_of", lambda *_, flights=flights: flights)
        for _ in range(3):  # the memory of a call is that of the call before
            found = [host(one) for one in function(A)]
            assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(found, expected, strict=True))
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        function(A)
        stream.begin_capture()
        parts = function(A)
        graph = stream.end_capture()
        for _ in range(2):
            for part in parts:
                part.fill(0)
            graph.launch(stream)
        stream.synchronize()
        for one, other in zip(parts, expected, strict=True):
            assert np.array_equal(host(one), other, equal_nan=True)
