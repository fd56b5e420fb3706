"""Tall matrices of any condition, and what an orthonormal basis of theirs must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

from mansard import testing
from mansard.operations.tall_skinny.small_factors import CANCELLATION, unit_roundoff

ORTHONORMAL = 60  # random data stay below 20
RESIDUAL = CANCELLATION / 4  # what a step without a turn may cost
SMALL = (300, 8)  # enough for the kernels, few enough for the emulator


def conditioned(K: int, n: int, kappa: float, dtype: str = "float64", spectrum: str = "even", seed: int = 0) -> Any:
    """U sigma W^H with singular values from 1 to 1 / kappa; `pair` has two columns 1 / kappa apart instead."""
    wide = "complex128" if dtype.startswith("complex") else "float64"
    A = testing.random_matrix(np, K, n, wide, seed)
    if spectrum == "pair":
        A[:, 1] = A[:, 0] + A[:, 1] / kappa
        return A.astype(dtype)
    sigma = {
        "even": np.logspace(0, -np.log10(kappa), n),
        "one": np.r_[np.ones(n - 1), 1 / kappa],
        "half": np.r_[np.ones(n - n // 2), np.full(n // 2, 1 / kappa)],
    }[spectrum]
    right = np.linalg.qr(testing.random_matrix(np, n, n, wide, seed + 1))[0]
    return ((np.linalg.qr(A)[0] * sigma) @ right.conj().T).astype(dtype)


def host(array: Any) -> Any:
    """On the CPU, in double precision."""
    array = np.asarray(array.get() if hasattr(array, "get") else array)
    return array.astype("complex128" if array.dtype.kind == "c" else "float64")


def where(backend: str) -> dict[str, Any]:
    return {"backend": None if backend == "cuda" else backend}


def check(V: Any, Q: Any, R: Any, dependent: Any = None, residual: float = RESIDUAL) -> None:
    """Q orthonormal, R upper triangular with a positive diagonal, V = Q R column by column."""
    u = unit_roundoff(str(Q.dtype).removeprefix("torch."))
    V, Q, R = host(V), host(Q), host(R)
    kept = np.ones(V.shape[1]) if dependent is None else 1.0 * ~dependent
    assert np.abs(Q.conj().T @ Q - np.diag(kept)).max() <= ORTHONORMAL * u
    assert not np.tril(R, -1).any() and (np.diag(R).imag == 0).all() and ((np.diag(R).real > 0) == (kept > 0)).all()
    norms = np.linalg.norm(V, axis=0)
    assert (np.linalg.norm(V - Q @ R, axis=0) <= residual * u * norms).all()
