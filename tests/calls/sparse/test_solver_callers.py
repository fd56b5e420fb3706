"""Solvers take PyTorch tensors, JAX and CuPy arrays, and give the same kind back, with the values that NumPy's have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import mansard as ms
from mansard.errors import Transformed
from mansard.sparse import matrices
from mansard.sparse.linalg import Propagator, cg, eigsh, expm_multiply, gmres, lobpcg, minres


class Library:
    """An array library, and where its arrays live."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module = module = pytest.importorskip(name)
        if name == "cupy":
            from mansard.backends import cuda

            if cuda.unavailable():
                pytest.skip("no GPU")
        if name == "torch":
            self.type, self.on_gpu = module.Tensor, module.cuda.is_available()
        elif name == "jax":
            self.type, self.on_gpu = module.Array, module.default_backend() == "gpu"
        else:
            self.type, self.on_gpu = module.ndarray, True

    def array(self, given: Any) -> Any:
        given = np.ascontiguousarray(given)
        if self.name == "torch":
            return self.module.tensor(given, device="cuda" if self.on_gpu else "cpu")
        return self.module.numpy.asarray(given) if self.name == "jax" else self.module.asarray(given)

    def numpy(self, array: Any) -> Any:
        assert isinstance(array, self.type), type(array)
        return (
            array.cpu().numpy() if self.name == "torch" else np.asarray(array.get() if self.name == "cupy" else array)
        )

    def matrix(self, A: Any) -> Any:
        """A sparse matrix where the arrays are."""
        if not self.on_gpu:
            return A
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix(sparse.csr_matrix(A))


@pytest.fixture(params=["torch", "jax", "cupy"])
def library(request: pytest.FixtureRequest) -> Library:
    return Library(request.param)


A = sparse.csr_array(matrices.stencil(7, (6, 6, 6)).astype(np.float32))
B, X = (np.random.default_rng(5).standard_normal(shape).astype(np.float32) for shape in (216, (216, 2)))
SOLVES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cg": lambda A, b, X: cg(A, b, rtol=1e-4)[0],
    "cg of several": lambda A, b, X: cg(A, X, X, rtol=1e-4)[0],
    "minres": lambda A, b, X: minres(A, b, b, rtol=1e-4)[0],
    "gmres": lambda A, b, X: gmres(A, b, b, rtol=1e-4)[0],
    "lobpcg": lambda A, b, X: lobpcg(A, X, largest=False, tol=1e-2, maxiter=60)[0],
    "lobpcg vectors": lambda A, b, X: abs(lobpcg(A, X, largest=True, tol=1e-3, maxiter=90)[1][:, 0]),
    "eigsh": lambda A, b, X: eigsh(A, 2, v0=b, tol=1e-3)[0],
    "expm_multiply": lambda A, b, X: expm_multiply(A, X, -0.1),
    "Propagator": lambda A, b, X: Propagator(A, -0.1)(b),
}


@pytest.mark.filterwarnings("ignore:lobpcg")
@pytest.mark.parametrize("name", SOLVES)
def test_results_are_the_callers_arrays(library: Library, name: str) -> None:
    solve = SOLVES[name]
    expected = solve(A, B, X)
    given = [library.array(one) for one in (B, X)]
    for matrix in (library.matrix(A), ms.sparse.matrix(library.matrix(A))):
        found = library.numpy(solve(matrix, *given))
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert np.allclose(found, expected, rtol=2e-3, atol=2e-3)
    for one, before in zip(given, (B, X), strict=True):
        assert (library.numpy(one) == before).all()


@pytest.mark.parametrize("solve", [cg, minres, gmres])
def test_preconditioners_and_callbacks_see_the_callers_arrays(library: Library, solve: Any) -> None:
    seen, d = [], library.array(1 / A.diagonal())

    def M(r: Any) -> Any:
        assert isinstance(r, library.type)
        return d * r

    options = {"callback_type": "x"} if solve is gmres else {}
    x, info = solve(library.matrix(A), library.array(B), rtol=1e-4, M=M, callback=seen.append, **options)
    assert info == 0 and np.linalg.norm(B - A @ library.numpy(x)) <= 2e-4 * np.linalg.norm(B)
    assert seen and all(isinstance(one, library.type) for one in seen)
    if library.name == "jax" and len(seen) > 1:  # arrays of JAX never change: each is a copy
        assert (np.asarray(seen[0]) != np.asarray(seen[-1])).any()


def test_dense_and_sparse_operators_of_a_library(library: Library) -> None:
    expected = cg(A, B, rtol=1e-4)[0]
    dense, b = library.array(A.toarray()), library.array(B)
    assert np.allclose(library.numpy(cg(dense, b, rtol=1e-4)[0]), expected, atol=1e-3)
    assert library.numpy(eigsh(dense, 2, tol=1e-3)[0]).shape == (2,)
    if library.name == "torch":
        tensor = dense.to_sparse_csr()
        assert np.allclose(library.numpy(cg(tensor, b, rtol=1e-4)[0]), expected, atol=1e-3)
        assert np.allclose(library.numpy(Propagator(tensor, -0.1)(b)), Propagator(A, -0.1)(B), atol=1e-4)
    if library.name != "cupy":
        with pytest.raises(TypeError, match="b is a NumPy array and A a"):
            cg(dense, B)


def test_nothing_to_solve(library: Library) -> None:
    b = library.array(np.zeros(216, np.float32))
    for solve in (cg, minres, gmres):
        x, info = solve(library.matrix(A), b)
        assert info == 0 and not library.numpy(x).any() and x is not b


def test_other_dtypes_than_the_matrix(library: Library) -> None:
    """As of NumPy's vectors; JAX without 64-bit types gets what it has."""
    found = library.numpy(cg(library.matrix(A.astype(np.float64)), library.array(B), rtol=1e-4)[0])
    wide = library.name != "jax" or library.module.config.jax_enable_x64
    assert found.dtype == (np.float64 if wide else np.float32)


def test_gradients_and_traces_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"M is given.*preconditioner.*lobpcg"):
        eigsh(A, 2, M=torch.eye(216))
    b = torch.ones(216, requires_grad=True)
    with pytest.raises(Transformed, match=r"b requires a gradient .*b\.detach\(\)"):
        cg(A, b)
    with torch.no_grad():
        assert cg(A, b)[1] == 0
    with pytest.raises(TypeError, match="b has dtype bfloat16"):
        cg(A, torch.ones(216, dtype=torch.bfloat16))
    jax = pytest.importorskip("jax")
    with pytest.raises(Transformed, match="b is traced by JAX"):
        jax.jit(lambda b: cg(A, b)[0])(jax.numpy.ones(216))
