"""The jacobi kernels of CPUs: the largest matrices of lanes, and small values to their last digits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from jacobi_cases import launch, ratios, stack
from sparing import sliced

from mansard.kernels.factor.jacobi import spec
from mansard.plan.problem import Problem

P = spec.problem
# The largest that lanes take; few, since their exact values take a second each
LARGE: list[Problem] = [
    P("float64", 64, 9, want="svd", method="any"), P("float32", 96, 3, method="any"),
    P("float64", 128, 2, want="eigvalsh", method="any"), P("complex128", 48, 9, want="svd", method="any"),
    P("float64", 96, 3, want="svdvals", method="any"), P("float32", 128, 2, want="svd", method="any"),
    P("complex64", 64, 5, method="any"), P("complex128", 24, 9, method="any"),
    P("float64", 100, 3, method="any"), P("complex64", 31, 5, want="svdvals"),
    P("float64", 40, 5, want="eigh"),
]  # fmt: skip


@pytest.mark.parametrize("problem", sliced(LARGE, 5), ids=str)
def test_the_largest_matrices_of_lanes(problem: Problem) -> None:
    """Errors of values are those of 2 n steps with either sign: beyond 64 rows they outgrow the bound as their root."""
    A = stack(problem, 1, ("random", "clustered", "graded", "deficient"))
    got = launch(problem, None, "cpu", A)
    worst = ratios(problem, A, got)
    values = worst.pop("values")
    assert not got.info.any() and values <= max(1, (problem.N / 32) ** 0.5) and max(worst.values(), default=0) <= 1, (
        worst
    )


def test_columns_of_very_different_size_by_lanes_and_threads(gpu_backend: str) -> None:
    """A = Q D by the other kernels: small values have small relative errors."""
    for backend, n in (("cpu", 7), (gpu_backend, 4)):
        D = np.ldexp(np.ones(n), -9 * np.arange(n))
        A = np.linalg.qr(np.random.default_rng(12).standard_normal((9, n, n)))[0] * D
        for want in ("svd", "svdvals"):
            problem = P("float64", n, 9, want=want)
            got = launch(problem, None, backend, A)
            assert (np.abs(got.W - D) <= 1e-15 * n * D).all(), (backend, want)
            assert max(ratios(problem, A, got).values()) <= 1


def number_below(A: Any, point: Fraction) -> int:
    """Eigenvalues of a symmetric matrix below a point, exactly: negative pivots of A - point I."""
    n = len(A)
    rows = [[Fraction(float(A[i, j])) - (point if i == j else 0) for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return sum(rows[k][k] < 0 for k in range(n))


@pytest.mark.parametrize("dtype, grades", [("float64", 11), ("float32", 5)])
def test_small_eigenvalues_of_graded_matrices_on_cpus(dtype: str, grades: int) -> None:
    """D A D with a well-conditioned definite A: every eigenvalue has a small relative error, whatever D is. `any`
    method promises less: its values are right beside the largest."""
    n, eps, rng = 6, float(np.finfo(dtype).eps), np.random.default_rng(13)
    L = np.eye(n) + np.tril(rng.integers(-2, 3, (n, n)) / 8, -1)
    D = np.stack([np.ldexp(np.ones(n), rng.permutation(grades * np.arange(n))) for _ in range(9)])
    A = (D[:, :, None] * (L @ L.T) * D[:, None, :]).astype(dtype)
    assert np.array_equal(A, D[:, :, None] * (L @ L.T) * D[:, None, :]), "exact products"
    for want in ("eigh", "eigvalsh"):
        W = launch(P(dtype, n, 9, want=want), None, "cpu", A).W
        for one, values in zip(A, W, strict=True):
            for i, value in enumerate(values):
                low, high = (Fraction(float(value)) * (1 + sign * Fraction(30 * n * eps)) for sign in (-1, 1))
                assert number_below(one, low) <= i < number_below(one, high), (want, i, value)
