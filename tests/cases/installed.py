"""What a user writes on the first day: tests/system/test_package.py runs and type-checks it."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np

import mansard as ms


def block() -> np.ndarray:
    """Small integers, so that every sum is exact; enough of them for a kernel to answer."""
    return (np.arange(100_000 * 4).reshape(-1, 4) % 7 - 3).astype(float)


def products() -> None:
    V = block()
    S = ms.gram(V)
    assert (S == V.T @ V).all()
    assert (ms.matmul(V, S) == V @ S).all()
    assert (ms.gram(V, backend="reference") == S).all()


def systems() -> None:
    A = np.tile(4 * np.eye(2), (40, 1, 1))
    X = ms.linalg.solve(A, np.ones((40, 2, 1)))
    assert (X == 0.25).all()


def powers() -> None:
    A = ms.sparse.matrix(ms.sparse.matrices.stencil(5, (6, 5)))
    y = np.asarray(ms.matrix_powers(A, 2)(np.ones(30)))
    assert (y[1] == A @ np.ones(30)).all() and (y[2] == A @ y[1]).all()


def plans() -> None:
    V = block()
    plan = ms.plan("gram", V)
    text: str = plan.explain()
    assert "limit" in text
    assert plan.source()
    assert (plan(V) == ms.gram(V)).all()


if __name__ == "__main__":
    home = Path(ms.__file__).resolve().parent
    assert "site-packages" in home.parts, home
    assert importlib.metadata.version("mansard") == ms.__version__
    for check in (products, systems, powers, plans):
        check()
    print(home)
