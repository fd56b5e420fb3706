"""The references of the tests of eigenvalues and singular values: known spectra to more digits than double has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exact_values import exact_eigenvalues, exact_singular_values
from two_sided_cases import KINDS, general, hermitian, wide

PI = 4 * np.arctan(np.longdouble(1))
extended = pytest.mark.skipif(np.finfo("longdouble").eps > 1e-18, reason="no extended precision here")


@extended
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_known_eigenvalues(dtype: str) -> None:
    """Eigenvalues of second differences are known; a phase beside the diagonal changes none of them."""
    for n in (1, 2, 7, 40):
        phase = 1j if dtype == "complex128" else 1
        beside = np.eye(n, k=1) * phase
        A = (2 * np.eye(n) - beside - beside.conj().T)[None].astype(dtype)
        known = 4 * np.sin(np.arange(1, n + 1) * PI / (2 * (n + 1))) ** 2
        assert np.abs(exact_eigenvalues(A) - known).max() <= 1e-17
        assert np.abs(exact_singular_values(A)[:, ::-1] - known).max() <= 1e-17
        assert np.abs(exact_eigenvalues(-A) + known[::-1]).max() <= 1e-17


@extended
def test_clusters_and_null_spaces() -> None:
    """Values that are equal, or nearly so, and shapes that are not square."""
    ones = np.ones((6, 4))
    found = exact_singular_values(ones)
    assert abs(found[0] - np.sqrt(np.longdouble(24))) <= 1e-17 and np.abs(found[1:]).max() <= 1e-18
    assert np.abs(exact_singular_values(ones.T) - found).max() <= 1e-17
    near = np.diag([1.0, 1 + 2.0**-52, 1 - 2.0**-53])
    turn = np.longdouble([[4, -3, 0], [3, 4, 0], [0, 0, 5]]) / 5
    assert np.abs(exact_eigenvalues(turn @ near @ turn.T) - np.sort(np.diag(near))).max() <= 1e-18
    assert exact_singular_values(np.zeros((2, 0, 3))).shape == (2, 0)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_lapack_agrees_as_far_as_it_can(dtype: str) -> None:
    rng: Any = np.random.default_rng(0)
    for kind in KINDS:
        A, B = hermitian(rng, kind, 9, dtype), general(rng, kind, 9, 6, dtype)
        for one, exact, found in (
            (A, exact_eigenvalues(wide(A)), np.linalg.eigvalsh(A)),
            (B, exact_singular_values(wide(B)), np.linalg.svd(B, compute_uv=False)),
        ):
            norm = np.abs(found).max()
            assert np.abs(exact - found).max() <= 1e-14 * norm, (kind, one.shape)


def test_matrices_from_which_lapack_gives_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors that are not orthonormal are not begun with."""
    A = general(np.random.default_rng(1), "random", 5, 5, "float64")
    expected = exact_singular_values(A)
    monkeypatch.setattr(np.linalg, "svd", lambda A, **_: (None, None, np.full_like(A, 0.5)))
    assert np.abs(exact_singular_values(A) - expected).max() <= 1e-17 * float(expected[0])
