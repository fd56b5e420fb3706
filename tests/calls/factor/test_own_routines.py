"""Factorizations of tensors in the CPU's memory by PyTorch's own routines: results, bad matrices, and who answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard.arrays.kinds import kind_of
from mansard.operations.factor import lapack, own_routines
from mansard.operations.factor.task import Task
from mansard.operations.factor.two_sided import loops

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("no_plans")
N = 140  # rows beyond which no kernel is compiled for a few matrices


def operands(dtype: str, seed: int = 0) -> tuple[Any, Any, Any]:
    """A general and a positive definite matrix, and right-hand sides."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Any:
        real = rng.standard_normal(shape)
        return (real + 1j * rng.standard_normal(shape)).astype(dtype) if "complex" in dtype else real.astype(dtype)

    A = draw(N, N)
    return A, A @ A.conj().T + N * np.eye(N, dtype=dtype), draw(N, 3)


@pytest.fixture
def _without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's loops and LAPACK raise: whoever asks them fails."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("NumPy's LAPACK was asked")

    monkeypatch.setattr(lapack, "planned", lambda *_: refuse)
    monkeypatch.setattr(loops, "bound", lambda *_: refuse)


@pytest.mark.usefixtures("_without_numpy")
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_results(dtype: str) -> None:
    """Twice each: a call that plans, and one that was planned before."""
    A, S, B = operands(dtype)
    a, s, b = map(torch.from_numpy, (A, S, B))
    small = 40 * N * np.finfo(dtype).eps
    for _ in range(2):
        for upper in (False, True):
            F = ms.linalg.cholesky(s, upper=upper).numpy()
            back = F.conj().T @ F if upper else F @ F.conj().T
            assert abs(back - S).max() <= small * abs(S).max()
            assert not (np.tril(F, -1) if upper else np.triu(F, 1)).any()
        assert abs(A @ ms.linalg.solve(a, b).numpy() - B).max() <= small * np.linalg.cond(A)
        assert abs(A @ ms.linalg.inv(a).numpy() - np.eye(N)).max() <= small * np.linalg.cond(A)
        Q, R = (one.numpy() for one in ms.linalg.qr(a))
        assert abs(Q @ R - A).max() <= small * abs(A).max() and not np.tril(R, -1).any()
        assert abs(ms.linalg.qr(a, mode="r").numpy() - R).max() <= small * abs(R).max()
        w, Z = (one.numpy() for one in ms.linalg.eigh(s))
        assert abs(S @ Z - Z * w).max() <= small * abs(S).max() and (np.diff(w) >= 0).all()
        assert abs(ms.linalg.eigvalsh(s, UPLO="U").numpy() - w).max() <= small * w.max()
        U, sigma, VH = (one.numpy() for one in ms.linalg.svd(a, full_matrices=False))
        assert abs((U * sigma) @ VH - A).max() <= small * sigma.max()


@pytest.mark.parametrize("trans", "NTC")
@pytest.mark.parametrize("uplo", "LU")
def test_triangular_solves(uplo: str, trans: str) -> None:
    A, _, B = operands("complex128")
    A += 2 * N * np.eye(N)
    triangle = np.tril(A) if uplo == "L" else np.triu(A)
    matrix = {"N": triangle, "T": triangle.T, "C": triangle.conj().T}[trans]
    A[triangle == 0] = np.nan  # the other triangle is not read
    for _ in range(2):
        X = ms.blas.trsm(torch.from_numpy(A), torch.from_numpy(B), uplo=uplo, trans=trans).numpy()
        assert abs(matrix @ X - B).max() <= 1e-12


def test_bad_matrices_are_looked_at_by_lapack() -> None:
    """The same info as of NumPy's arrays, and the neighbours of a bad matrix are right."""
    A, S, B = (np.stack([one, one]) for one in operands("float64"))
    S[1, 5, 5], A[1, :, 7] = -1.0, 0.0
    nan = S.copy()
    nan[1, 5, 5] = np.nan
    for _ in range(2):
        for matrices in (S, nan):
            F, info = ms.linalg.cholesky_ex(torch.from_numpy(matrices))
            assert info.tolist() == ms.linalg.cholesky_ex(matrices)[1].tolist() == [0, 6]
            assert abs(F[0].numpy() @ F[0].numpy().T - S[0]).max() <= 1e-11 * abs(S).max()
        X, info = ms.linalg.solve_ex(torch.from_numpy(A), torch.from_numpy(B))
        assert info.tolist() == ms.linalg.solve_ex(A, B)[1].tolist() and info[1] > 0
        assert abs(A[0] @ X[0].numpy() - B[0]).max() <= 1e-9 and torch.isnan(X[1]).all()
        w, _, info = ms.linalg.eigh_ex(torch.from_numpy(nan))
        assert info.tolist() == [0, N + 1] and np.isnan(w[1].numpy()).all() and np.isfinite(w[0].numpy()).all()
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[1\] is not positive definite"):
        ms.linalg.cholesky(torch.from_numpy(S))


def test_tiny_systems_stay_with_numpy() -> None:
    tensors, arrays = kind_of(torch.zeros(1), "a"), kind_of(np.zeros(1), "a")
    solve = Task("lu", "solve")
    assert own_routines.bound(tensors, solve, (4, 8, 8)) is None
    assert own_routines.bound(tensors, solve, (N, N)) is not None and own_routines.bound(arrays, solve, (N, N)) is None
