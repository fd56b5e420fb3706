"""Stored sparse matrices as SciPy's LinearOperators: solvers take them, and they multiply whatever has a product."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from conftest import needs_cpu
from scipy.sparse import linalg
from sparse_cases import made, same, vectors

import mansard as ms

pytestmark = needs_cpu

A = made(60, 40, 5)
M = ms.sparse.matrix(A)
SIDE = 12
LINE = scipy.sparse.diags_array([-np.ones(SIDE - 1), 2 * np.ones(SIDE), -np.ones(SIDE - 1)], offsets=[-1, 0, 1])
GRID = (scipy.sparse.kron(LINE, scipy.sparse.eye_array(SIDE)) + scipy.sparse.kron(scipy.sparse.eye_array(SIDE), LINE))
GRID = GRID.tocsr()
STORED = ms.sparse.matrix(GRID)
RIGHT = vectors(SIDE * SIDE)


def exact(found: Any, expected: Any) -> bool:
    """The same entries, dtype and kind of array."""
    return type(found) is type(expected) and found.dtype == expected.dtype and np.array_equal(found, expected)


# ---- SciPy's solvers ------------------------------------------------------------------------------------------------


def test_it_is_a_linear_operator() -> None:
    assert isinstance(M, linalg.LinearOperator) and linalg.aslinearoperator(M) is M
    assert M.ndim == 2 and M.shape == A.shape and M.dtype == A.dtype
    x, X, y, Y = vectors(40), vectors((40, 3)), vectors(60), vectors((60, 3))
    assert exact(M.matvec(x), A @ x) and exact(M.matvec(x[:, None]), A @ x[:, None]) and exact(M(x), A @ x)
    assert exact(M.matmat(X), A @ X) and exact(M.rmatvec(y), A.T @ y) and exact(M.rmatmat(Y), A.T @ Y)
    z = ms.sparse.matrix(made(60, 40, 5, "complex128"))
    w = vectors(60, "complex128")
    assert exact(z.rmatvec(w), z.to_scipy().conj().T @ w) and exact(z.adjoint() @ w, z.H @ w)
    assert exact(z.transpose() @ w, z.to_scipy().T @ w)


def test_eigsh_and_lobpcg() -> None:
    expected = np.linalg.eigvalsh(GRID.toarray())
    largest = linalg.eigsh(STORED, 4, which="LA", return_eigenvectors=False)
    assert np.allclose(np.sort(largest), expected[-4:], rtol=1e-10)
    block = np.random.default_rng(0).standard_normal((SIDE * SIDE, 4))
    found, vectors_found = linalg.lobpcg(STORED, block, largest=False, tol=1e-9, maxiter=200)
    assert np.allclose(np.sort(found), expected[:4], rtol=1e-9)
    assert np.allclose(GRID @ vectors_found, vectors_found * found, atol=1e-6)


@pytest.mark.parametrize("solver", ["cg", "minres", "gmres", "bicgstab", "lsqr"])
def test_solvers(solver: str) -> None:
    options = {"atol": 1e-12, "btol": 1e-12} if solver == "lsqr" else {"rtol": 1e-12}
    x = getattr(linalg, solver)(STORED, RIGHT, **options)[0]
    assert np.allclose(GRID @ x, RIGHT, atol=1e-8)


def test_svds_uses_the_adjoint() -> None:
    A = made(60, 40, 5, "complex128")
    found = linalg.svds(ms.sparse.matrix(A), 3, return_singular_vectors=False, random_state=0)
    assert np.allclose(np.sort(found)[::-1], np.linalg.svd(A.toarray(), compute_uv=False)[:3], rtol=1e-10)


def test_sums_and_products_of_operators_are_lazy() -> None:
    x = vectors(SIDE * SIDE)
    shifted = STORED - 3 * linalg.LinearOperator(GRID.shape, matvec=lambda x: x, dtype=float)
    assert exact(shifted @ x, GRID @ x - 3 * x)
    assert exact((STORED + STORED) @ x, GRID @ x + GRID @ x) and exact((STORED**2) @ x, GRID @ (GRID @ x))
    twice = STORED @ linalg.LinearOperator(GRID.shape, matvec=lambda x: 2 * x, dtype=float)
    assert isinstance(twice, linalg.LinearOperator) and exact(twice @ x, GRID @ (2 * x))


# ---- * and @ --------------------------------------------------------------------------------------------------------


def test_numbers() -> None:
    x, y = vectors(40), vectors(60)
    for found, factor in ((2 * M, 2), (M * 3.0, 3.0), (-M, -1), (M / 2, 0.5), (np.float64(4) * M, 4)):
        assert isinstance(found, ms.sparse.Matrix) and found.dtype == np.float64 and found.format == M.format
        assert exact(found @ x, factor * (A @ x)) and exact(found.T @ y, factor * (A.T @ y))
    assert exact((M.T * 2) @ y, 2 * (A.T @ y))
    turned = 2j * M
    assert turned.dtype == np.complex128 and exact(turned @ x, 2j * (A @ x))
    assert exact((M * 2j).H @ y, -2j * (A.T @ y))
    Z = made(60, 40, 5, "complex128")
    assert exact((ms.sparse.matrix(Z).H * 2j) @ y, 2j * (Z.conj().T @ y))
    narrow = ms.sparse.matrix(A, values="float32") * 2
    assert narrow.dtype == np.float64 and narrow.storage.values_dtype == "float32" and exact(narrow @ x, 2 * (A @ x))


@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sparse_operands(kind: str) -> None:
    make = scipy.sparse.csr_array if kind == "array" else scipy.sparse.csr_matrix
    B, C = make(made(40, 20, 3)), make(made(30, 60, 3))
    assert scipy.sparse.issparse(M @ B) and exact((M @ B).toarray(), (A @ B).toarray())
    assert scipy.sparse.issparse(C @ M) and exact((C @ M).toarray(), (C @ A).toarray())
    stored = M @ ms.sparse.matrix(B)
    assert isinstance(stored, ms.sparse.Matrix) and exact(stored.toarray(), (A @ B).toarray())
    both = M.T @ M
    assert exact(both.toarray(), (A.T @ A).toarray()) and exact((M * M.H).toarray(), (A @ A.T).toarray())


def test_arrays_from_the_left_and_lists() -> None:
    x, y, Y = vectors(40), vectors(60), vectors((3, 60))
    assert exact(y @ M, y @ A) and exact(Y @ M, Y @ A) and exact(y * M, y @ A)
    assert exact(M @ x.tolist(), A @ x) and exact(M * x, A @ x) and exact(M.dot(x), A @ x)
    assert exact(M @ [[float(i)] for i in x], A @ x[:, None])
    Z = made(60, 40, 5, "complex128")
    assert exact(y @ ms.sparse.matrix(Z), y @ Z)


def test_conversions() -> None:
    Z = made(60, 40, 5, "complex128")
    stored = ms.sparse.matrix(Z)
    for found, expected in ((stored, Z), (stored.T, Z.T), (stored.H, Z.conj().T), (stored.H.T, Z.conj())):
        assert same(found.tocsr(), expected.tocsr()) and exact(found.toarray(), expected.toarray())
    again = pickle.loads(pickle.dumps(stored.H))
    assert isinstance(again, linalg.LinearOperator) and exact(again.toarray(), Z.conj().T.toarray())


# ---- promotion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of_matrix", ["float32", "float64", "complex64", "complex128"])
def test_vectors_are_promoted_as_numpys(of_matrix: str) -> None:
    B = made(60, 40, 5, of_matrix)
    stored = ms.sparse.matrix(B)
    for of_vector in ("bool", "int8", "uint16", "int64", "float32", "float64", "complex64", "complex128"):
        x = vectors(40).astype(of_vector)
        expected = (B.toarray() @ x).astype(np.result_type(of_matrix, of_vector))
        for _ in range(2):  # by a new plan, and by the one that is remembered
            assert exact(stored @ x, expected), (of_matrix, of_vector)


def test_blocks_of_vectors_are_promoted_too() -> None:
    for shape in ((40, 2), (40, 130)):
        X = vectors(shape)
        assert exact(M @ X.astype("f4"), A @ X) and exact(M @ X.astype("i4"), A @ X)


def test_promotion_of_the_other_vectors() -> None:
    square = made(40, 40, 5)
    stored, x, z = ms.sparse.matrix(square), vectors(40).astype("f4"), vectors(40, seed=2).astype("f4")
    assert exact(stored.recurrence(x, z, beta=2.0, gamma=3.0), square @ x.astype(float) + 2.0 * x + 3.0 * z)
    out = vectors(40, seed=4)
    expected = 2.0 * (square @ x.astype(float)) + out
    assert stored.product(x, out=out, alpha=2.0, beta=1.0) is out and exact(out, expected)


def test_other_libraries_keep_their_rules() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="A holds float64 and x float32"):
        M @ torch.ones(40, dtype=torch.float32)
    jax = pytest.importorskip("jax")
    with pytest.raises(TypeError, match="A holds float64 and x float32"):
        M @ jax.numpy.ones(40, "float32")


def test_scipy_is_imported_with_the_first_matrix() -> None:
    text = "import sys, mansard as ms; ms.sparse; ms.gram; print('scipy.sparse' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False"]
