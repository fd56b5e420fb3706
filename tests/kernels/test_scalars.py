"""Alpha and beta of every operation on every backend: complex, real and purely imaginary ones, exact on integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scalars import COMPLEX

import mansard as ms
from mansard import testing
from mansard.operations.tall_skinny.tsm2r_call import plan_tsm2r


class Made:
    """Arrays of small complex integers beside a backend."""

    def __init__(self, backend: str) -> None:
        self.xp, self.where = testing.array_module(backend), None if backend == "cuda" else backend
        self.rng = np.random.default_rng(3)

    def __call__(self, *shape: int) -> Any:
        parts = self.rng.integers(-3, 4, (2, *shape))
        return self.xp.asarray((parts[0] + 1j * parts[1]).astype("complex128"))


Results = tuple[Any, Any]  # what was found, what it should be


def gram(made: Made, alpha: complex, beta: complex) -> Results:
    A, B, out = made(100, 5), made(100, 6), made(5, 6)
    expected = alpha * (A.conj().T @ B) + beta * out
    return ms.gram(A, B, out=out, alpha=alpha, beta=beta, backend=made.where), expected


def gram_of_one(made: Made, alpha: complex, beta: complex) -> Results:
    A, out = made(100, 5), made(5, 5)
    expected = alpha * (A.conj().T @ A) + beta * out
    return ms.gram(A, out=out, alpha=alpha, beta=beta, backend=made.where), expected


def tall_times_small(made: Made, alpha: complex, beta: complex) -> Results:
    A, B, out = made(120, 6), made(6, 5), made(120, 5)
    expected = alpha * (A @ B) + beta * out
    return ms.matmul(A, B, out=out, alpha=alpha, beta=beta, backend=made.where), expected


def large_times_skinny(made: Made, alpha: complex, beta: complex) -> Results:
    A, B, out = made(300, 260), made(260, 3), made(300, 3)
    expected = alpha * (A @ B) + beta * out
    if made.where == "cpu":
        return ms.matmul(A, B, out=out, alpha=alpha, beta=beta, backend="cpu"), expected
    return plan_tsm2r(A, B, out, made.where).run(A, B, out, alpha, beta), expected


def matmul_gram(made: Made, alpha: complex, beta: complex) -> Results:
    V, S, out = made(90, 4), made(4, 4), made(90, 4)
    expected = alpha * (V @ S) + beta * out
    W, G = ms.matmul_gram(V, S, out=out, alpha=alpha, beta=beta, backend=made.where)
    assert bool((expected.conj().T @ expected == G).all())
    return W, expected


def batch(made: Made, alpha: complex, beta: complex) -> Results:
    A, B, out = made(7, 3, 4), made(7, 4, 5), made(7, 3, 5)
    expected = alpha * (A @ B) + beta * out
    return ms.blas.gemm(A, B, out=out, alpha=alpha, beta=beta, backend=made.where), expected


def ragged(made: Made, alpha: complex, beta: complex) -> Results:
    sizes = [(3, 4, 2), (5, 1, 6), (1, 7, 3)]
    A, B, C = ([made(m, k) for m, _, k in sizes], [made(k, n) for _, n, k in sizes], [made(m, n) for m, n, _ in sizes])
    expected = [alpha * (a @ b) + beta * c for a, b, c in zip(A, B, C, strict=True)]
    a, b, c = (ms.Ragged.from_list(some) for some in (A, B, C))
    found = ms.matmul(a, b, out=c, alpha=alpha, beta=beta, backend=made.where)
    flat = made.xp.concatenate
    return flat([one.ravel() for one in found]), flat([one.ravel() for one in expected])


def vectors(made: Made, alpha: complex, beta: complex) -> Results:
    A, x, out = made(7, 5, 6), made(7, 6), made(7, 5)
    expected = alpha * (A @ x[..., None])[..., 0] + beta * out
    return ms.blas.gemv(A, x, out=out, alpha=alpha, beta=beta, backend=made.where), expected


def symmetric(made: Made, alpha: complex, beta: complex) -> Results:
    A, out = made(4, 5, 3), made(4, 5, 5)
    expected = made.xp.where(made.xp.tri(5, dtype=bool), alpha * (A @ A.swapaxes(1, 2)) + beta * out, out)
    return ms.blas.syrk(A, out=out, alpha=alpha, beta=beta, backend=made.where), expected


def triangles(made: Made, alpha: complex, beta: complex) -> Results:
    X = made(6, 4, 3)
    A = made.xp.tril(made(6, 4, 4), -1) + made.xp.eye(4)
    return ms.blas.trsm(A, A @ X, alpha=alpha, backend=made.where), alpha * X


def triangular_product(made: Made, alpha: complex, beta: complex) -> Results:
    A, B = made(6, 4, 4), made(6, 4, 3)
    return ms.blas.trmm(A, B, alpha=alpha, backend=made.where), alpha * (made.xp.tril(A) @ B)


def _sparse(made: Made) -> tuple[Any, Any]:
    dense = made(60, 60) * made.xp.asarray(made.rng.random((60, 60)) < 0.1)
    host = dense if made.xp is np else dense.get()
    A = scipy.sparse.csr_array(host)
    if made.where is None:
        import cupyx.scipy.sparse

        A = cupyx.scipy.sparse.csr_matrix(scipy.sparse.csr_matrix(A))
    return dense, ms.sparse.matrix(A, backend=made.where)


def sparse(made: Made, alpha: complex, beta: complex) -> Results:
    dense, M = _sparse(made)
    x, out = made(60), made(60)
    expected = alpha * (dense @ x) + beta * out
    return M.product(x, out=out, alpha=alpha, beta=beta), expected


def recurrence(made: Made, alpha: complex, beta: complex) -> Results:
    dense, M = _sparse(made)
    x, z = made(60), made(60)
    return M.recurrence(x, z, alpha=alpha, beta=beta, gamma=-beta), alpha * (dense @ x) + beta * x - beta * z


OPERATIONS: list[Callable[[Made, complex, complex], Results]] = [
    gram, gram_of_one, tall_times_small, large_times_skinny, matmul_gram, batch, ragged, vectors, symmetric, triangles,
    triangular_product, sparse, recurrence,
]  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_factors_of_every_kind(operation: Callable[[Made, complex, complex], Results], backend: str) -> None:
    for alpha, beta in COMPLEX:
        found, expected = operation(Made(backend), alpha, beta)
        assert bool((found == expected).all()), (alpha, beta)
