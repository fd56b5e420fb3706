"""cg, minres, lobpcg, eigsh and Propagator: known spectra, SciPy's answers, what is reported, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import linalg as scipy_linalg

import mansard as ms
from mansard.errors import MansardWarning
from mansard.sparse import matrices
from mansard.sparse.linalg import (
    Propagator,
    Report,
    blocks,
    cg,
    eigsh,
    expm_multiply,
    gmres,
    lobpcg,
    minres,
    operator,
    spectrum,
    updates,
)


def random(*shape: int, dtype: Any = np.float64, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def laplacian(side: int) -> tuple[Any, Any]:
    """-Laplace on a cube, and its eigenvalues, ascending: multiplicities are 1, 3 and 6."""
    w = 2 - 2 * np.cos(np.pi * np.arange(1, side + 1) / (side + 1))
    return matrices.stencil(7, (side,) * 3), np.sort((w[:, None, None] + w[:, None] + w).ravel())


def indefinite(dtype: Any = np.float64) -> Any:
    return (matrices.anderson((6, 6, 6), disorder=4.0, seed=3) + 0.5 * sparse.eye_array(216)).astype(dtype).tocsr()


@pytest.fixture
def by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small problems take the kernels that large ones do."""
    monkeypatch.setattr(operator, "LARGE", 1)
    monkeypatch.setattr(blocks, "WORTH", 1)


# --- Operands ------------------------------------------------------------------------------------------------


def preconditioners(A: Any) -> list[Any]:
    inverse = sparse.csr_array(sparse.diags_array(1 / A.diagonal()))
    return [inverse, scipy_linalg.aslinearoperator(inverse), ms.sparse.matrix(inverse), lambda r: inverse @ r]


@pytest.mark.parametrize("solve", [cg, minres, gmres])
def test_preconditioners_of_any_kind(solve: Any) -> None:
    A = matrices.stencil(7, (5, 5, 5))
    A = sparse.csr_array(A + sparse.diags_array(np.geomspace(0.1, 1e3, 125)))
    b = random(125)
    _, _, plain = solve(A, b, rtol=1e-8, maxiter=400, report=True)
    counts = set()
    for M in preconditioners(A):
        for matrix in (A, ms.sparse.matrix(A)):
            x, info, run = solve(matrix, b, rtol=1e-8, M=M, report=True)
            assert info == 0 and np.linalg.norm(b - A @ x) <= 1.01e-8 * np.linalg.norm(b)
            counts.add(run.iterations)
    assert max(counts) - min(counts) <= 1 and max(counts) < plain.iterations


@pytest.mark.parametrize("solve", [cg, minres, gmres])
def test_a_preconditioner_that_returns_its_argument(solve: Any) -> None:
    A, b = matrices.stencil(7, (5, 5, 5)), random(125)
    x, info = solve(A, b, rtol=1e-8, M=lambda r: r)
    assert info == 0 and np.linalg.norm(b - A @ x) <= 1.01e-8 * np.linalg.norm(b)


@pytest.mark.parametrize("solve", [cg, minres, gmres])
def test_preconditioners_that_are_none(solve: Any) -> None:
    A, b = matrices.stencil(5, (4, 4)), np.ones(16)
    with pytest.raises(TypeError, match="M is a str"):
        solve(A, b, M="jacobi")
    with pytest.raises(ValueError, match=r"M\(x\) has shape \(1,\)"):
        solve(A, b, M=lambda r: r[:1])
    with pytest.raises(ValueError, match=r"M has shape \(16, 3\)"):
        solve(A, b, M=np.ones((16, 3)))


def test_large_matrices_are_stored_for_our_kernels(by_kernels: None) -> None:
    A = matrices.stencil(5, (4, 4))
    held = operator.stored(A)
    assert isinstance(held, ms.sparse.Matrix) and operator.stored(held) is held
    assert np.array_equal(held @ np.arange(16.0), A @ np.arange(16.0))
    whole = sparse.csr_array(A.astype(np.int64))  # no kernel takes integers
    assert operator.stored(whole) is whole


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(40_000,), (9_000, 3), (0,), (5, 1)], ids=str)
def test_updates_in_place(shape: tuple[int, ...], dtype: str) -> None:
    x, y = (np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype) for seed in (0, 1))
    a = 2.0 if len(shape) == 1 else np.arange(1.0, shape[1] + 1)
    for update, expected in ((updates.add_scaled, y + a * x), (updates.scale_and_add, a * y + x)):
        target = y.copy()
        assert update(target, a, x) is target and target.dtype == dtype and np.array_equal(target, expected)
    apart = np.zeros((*shape, 2), dtype)[..., 0]
    assert np.array_equal(updates.add_scaled(apart, a, x), a * x)


# --- cg ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_cg_as_scipy(dtype: str) -> None:
    A, b, seen = matrices.stencil(7, (6, 6, 6)).astype(dtype), random(216, dtype=dtype), []
    expected, _ = scipy_linalg.cg(A, b, rtol=1e-5, callback=lambda x: seen.append(1))
    heard: list[int] = []
    x, info, run = cg(A, b, rtol=1e-5, callback=lambda x: heard.append(1), report=True)
    assert info == 0 and x.dtype == dtype and abs(len(seen) - run.iterations) <= 1 and len(heard) == run.iterations
    assert np.linalg.norm(x - expected) <= 1e-4 * np.linalg.norm(x)
    assert run.products == run.passes == run.iterations and run.residuals[-1] <= 1e-5 * np.linalg.norm(b)


def test_several_right_hand_sides_share_the_passes() -> None:
    A, B = matrices.stencil(7, (6, 6, 6)), random(216, 4)
    B[:, 2] = 0
    x0 = random(216, 4, seed=1)
    for start in (None, x0):
        X, info, run = cg(A, B, start, rtol=1e-9, report=True)
        assert info == 0 and X.shape == B.shape and run.products == 4 * run.passes
        assert (np.linalg.norm(B - A @ X, axis=0) <= 1.01e-9 * np.linalg.norm(B, axis=0) + 1e-12).all()
    alone = [cg(A, B[:, j], rtol=1e-9)[0] for j in range(4)]
    assert np.allclose(cg(A, B, rtol=1e-9)[0], np.stack(alone, axis=1), atol=1e-12)
    with pytest.raises(ValueError, match="x0 has shape"):
        cg(A, B, x0[:, 0])
    assert cg(A, B[:, :1])[0].shape == (216,)


def test_cg_says_what_went_wrong() -> None:
    A, b = indefinite(), random(216)
    _, info, run = cg(A, b, rtol=1e-10, report=True)
    assert info > 0 and "not positive definite" in str(run)
    assert cg(matrices.stencil(7, (6, 6, 6)), b, rtol=1e-10, maxiter=3)[1] == 3
    with pytest.raises(ValueError, match="not negative"):
        cg(A, b, rtol=-1)


# --- minres --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shift", [0.0, 0.3])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_minres_solves_indefinite_systems(dtype: str, shift: float, preconditioned: bool) -> None:
    A, b = indefinite(dtype), random(216, dtype=dtype)
    if dtype == "complex128":
        phases = sparse.diags_array(np.exp(1j * np.arange(216)))
        A = sparse.csr_array(phases.conj() @ A @ phases)
    M = sparse.diags_array(np.linspace(0.5, 2, 216)) if preconditioned else None
    heard: list[Any] = []
    x, info, run = minres(A, b, rtol=1e-9, shift=shift, M=M, callback=heard.append, report=True)
    assert info == 0 and np.linalg.norm(b - A @ x + shift * x) <= 1e-9 * np.linalg.norm(b)
    assert len(heard) == run.iterations and run.products >= run.iterations + 1
    assert run.residuals[-1] == pytest.approx(np.linalg.norm(b - A @ x + shift * x), rel=1e-3)
    if not preconditioned:  # that is what is minimised
        falling = np.array(run.residuals[: run.iterations])
        assert (np.diff(falling) <= 1e-12 * falling[0]).all()
    if dtype == "float64":
        seen: list[Any] = []
        scipy_linalg.minres(A, b, rtol=1e-12, shift=shift, M=M, callback=seen.append)
        assert run.iterations <= len(seen) + 5


def test_minres_of_singular_systems() -> None:
    A = sparse.diags_array([1.0, -2.0, 4.0, 0.0]).tocsr()
    x, info = minres(A, np.array([1.0, 2.0, 4.0, 0.0]))
    assert info == 0 and np.allclose(x, [1, -1, 1, 0])
    x, info, run = minres(A, np.ones(4), report=True)
    assert info > 0 and np.allclose((A @ x)[:3], 1) and "smallest residual" in str(run)
    x, info = minres(A, np.zeros(4))
    assert info == 0 and not x.any()


def test_minres_checks_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    A, b = matrices.convection_diffusion((4, 4)), np.ones(16)
    with pytest.raises(ValueError, match="not Hermitian"):
        minres(A, b, check=True)
    with pytest.raises(ValueError, match="shift="):
        minres(A, b, shift=1j)
    with pytest.raises(ValueError, match="M is not positive definite"):
        minres(matrices.stencil(5, (4, 4)), b, M=lambda r: -r)
    x, info = minres(matrices.stencil(5, (4, 4)), b, maxiter=2, show=True)
    assert info == 2 and "2 iterations" in capsys.readouterr().out
    x, info = minres(matrices.stencil(5, (4, 4)), b, np.ones(16), rtol=1e-12)
    assert info == 0 and np.allclose(matrices.stencil(5, (4, 4)) @ x, b)


# --- lobpcg --------------------------------------------------------------------------------------------------


def check_pairs(A: Any, w: Any, v: Any, expected: Any, bound: float, B: Any = None) -> None:
    metric = v if B is None else B @ v
    assert np.abs(v.conj().T @ metric - np.eye(len(w))).max() <= 1e-10
    assert np.linalg.norm(A @ v - metric * w, axis=0).max() <= 1.01 * bound
    assert np.abs(w - expected).max() <= max(bound**2 * 1e3, 1e-11)


@pytest.mark.parametrize("largest", [False, True])
def test_lobpcg_on_a_laplacian(largest: bool) -> None:
    A, w = laplacian(9)
    expected = w[::-1][:7] if largest else w[:7]
    found, v, run = lobpcg(A, random(729, 7), tol=1e-9, maxiter=300, largest=largest, report=True)
    check_pairs(A, found, v, expected, 1e-9)
    assert run.residuals[-1] <= 1e-9 and run.products == 7 * run.passes


def test_lobpcg_by_kernels_as_without(by_kernels: None) -> None:
    A, w = laplacian(10)
    X = random(1000, 4)
    heard: list[Any] = []
    for matrix in (A, ms.sparse.matrix(A)):
        found, v, lambdas, norms, run = lobpcg(
            matrix, X, tol=1e-8, maxiter=200, largest=False, retLambdaHistory=True, retResidualNormsHistory=True,
            callback=lambda *told: heard.append(told), report=True,
        )  # fmt: skip
        check_pairs(A, found, v, w[:4], 1e-8)
        assert len(lambdas) == len(norms) == run.iterations + 1 and np.array_equal(lambdas[-1], found)
        assert norms[-1].max() == run.residuals[-1] <= 1e-8 and np.array_equal(heard[-1][1], norms[-1])


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_lobpcg_generalised_preconditioned_and_constrained(dtype: str) -> None:
    A, _ = laplacian(6)
    A = (A + sparse.diags_array(np.linspace(0, 5, 216))).astype(dtype).tocsr()
    if dtype == "complex128":
        phases = sparse.diags_array(np.exp(1j * np.arange(216)))
        A = sparse.csr_array(phases.conj() @ A @ phases)
    B = sparse.diags_array(np.linspace(1, 3, 216)).tocsr()
    w = np.linalg.eigvalsh(A.toarray() / np.sqrt(np.outer(B.diagonal(), B.diagonal())))
    solve = scipy_linalg.splu(A.tocsc()).solve
    X = random(216, 5, dtype=dtype)
    plain = lobpcg(A, X, B, tol=1e-8, maxiter=300, largest=False, report=True)
    found, v, run = lobpcg(A, X, B, M=solve, tol=1e-8, maxiter=100, largest=False, report=True)
    check_pairs(A, found, v, w[:5], 1e-8, B)
    assert run.iterations < 0.75 * plain[2].iterations
    Y = v[:, :4] @ np.triu(np.ones((4, 4)))
    more, u = lobpcg(A, X[:, :3], lambda x: B @ x, M=solve, Y=Y, tol=1e-8, largest=False, maxiter=100)
    check_pairs(A, more, u, w[4:7], 1e-7, B)
    assert np.abs(v[:, :4].conj().T @ (B @ u)).max() <= 1e-10


@pytest.mark.parametrize("metric", [False, True])
def test_lobpcg_in_the_complement_of_any_vectors(metric: bool) -> None:
    A, _ = laplacian(5)
    B = sparse.diags_array(np.linspace(1, 3, 125)).tocsr() if metric else sparse.eye_array(125, format="csr")
    Y = random(125, 3, seed=4)
    basis = np.linalg.svd((B @ Y).T)[2][3:].T  # of the complement
    inner, gram = basis.T @ (A @ basis), basis.T @ (B @ basis)
    L = np.linalg.inv(np.linalg.cholesky(gram))
    expected = np.linalg.eigvalsh(L @ inner @ L.T)[::-1][:4]
    w, v, run = lobpcg(A, random(125, 4), B if metric else None, Y=Y, tol=1e-8, maxiter=200, report=True)
    assert np.abs(w - expected).max() <= 1e-11 and np.abs(Y.T @ (B @ v)).max() <= 1e-11
    assert run.residuals[-1] <= 1e-8


def test_lobpcg_accuracy_to_rounding_and_locking() -> None:
    values = np.concatenate(([1.0, 1.0, 2.0], np.linspace(10, 1000, 297)))
    A = sparse.diags_array(values).tocsr()
    w, v = lobpcg(A, random(300, 3), M=sparse.diags_array(1 / values), largest=False, tol=1e-12, maxiter=200)
    assert np.abs(w - [1, 1, 2]).max() <= 1e-13 and np.abs(v.T @ v - np.eye(3)).max() <= 1e-13
    X = np.eye(300, 3) + 1e-3 * random(300, 3) * (np.arange(3) == 2)  # two vectors are exact from the start
    w, v, run = lobpcg(A, X, largest=False, tol=1e-10, maxiter=200, report=True)
    rounding = 4 * np.finfo(float).eps * 1000  # of the largest eigenvalue
    assert np.abs(w - [1, 1, 2]).max() <= rounding and run.residuals[-1] <= 1e-10


def test_lobpcg_of_small_matrices_and_bad_blocks() -> None:
    A, w = laplacian(3)
    B = sparse.diags_array(np.linspace(1, 2, 27)).tocsr()
    for metric in (None, B):
        found, v, run = lobpcg(A, random(27, 6), metric, largest=False, report=True)
        full = A.toarray() if metric is None else A.toarray() / np.sqrt(np.outer(B.diagonal(), B.diagonal()))
        check_pairs(A, found, v, np.linalg.eigvalsh(full)[:6], 1e-12, metric)
        assert "dense" in run.method
    A, w = laplacian(6)
    X = random(216, 3)
    X[:, 2] = X[:, 0] - X[:, 1]
    found, v, run = lobpcg(A, X, tol=1e-7, maxiter=200, largest=False, report=True)
    check_pairs(A, found, v, w[:3], 1e-7)
    assert "depend" in str(run)
    with pytest.raises(ValueError, match="Y has columns that depend"):
        lobpcg(A, random(216, 2), Y=X)
    for wrong, message in ((random(215, 2), "do not match"), (random(216), "side by side"), (random(216, 0), "side")):
        with pytest.raises(ValueError, match=message):
            lobpcg(A, wrong)
    with pytest.warns(MansardWarning, match="raise maxiter"):
        lobpcg(A, random(216, 2), tol=1e-12, maxiter=2, largest=False)
    assert issubclass(MansardWarning, UserWarning)


# --- eigsh ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("which", "k"), [("SA", 10), ("LA", 6), ("LM", 5), ("BE", 6)])
@pytest.mark.parametrize("tol", [0.0, 1e-6])
def test_eigsh_finds_every_copy(which: str, k: int, tol: float) -> None:
    A, w = laplacian(8)
    if which == "LM":
        A, w = sparse.csr_array(A - 7 * sparse.eye_array(512)), w - 7
    expected = {
        "SA": w[:k], "LA": w[-k:], "LM": np.sort(w[np.argsort(-abs(w))[:k]]),
        "BE": np.concatenate((w[: k // 2], w[-(k - k // 2) :])),
    }[which]  # fmt: skip
    found, v, run = eigsh(A, k, which=which, tol=tol, report=True)
    bound = max(tol * np.abs(expected).max(), 1e-12)
    check_pairs(A, found, v, expected, bound)
    assert run.residuals[-1] <= bound and run.passes < run.products
    assert np.array_equal(eigsh(A, k, which=which, tol=tol, return_eigenvectors=False), found)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_eigsh_dtypes_and_operators(dtype: str) -> None:
    A = matrices.topological_insulator((3, 3, 3), mass=1.0) if dtype == "complex128" else laplacian(5)[0].astype(dtype)
    w = np.linalg.eigvalsh(A.toarray())[-4:]
    for one in (A, scipy_linalg.aslinearoperator(A)):
        found, v = eigsh(one, 4, which="LA")
        assert v.dtype == dtype and np.abs(found - w).max() <= 100 * np.finfo(dtype).eps * abs(w).max()
        assert np.abs(v.conj().T @ v - np.eye(4)).max() <= 100 * np.finfo(dtype).eps


def test_eigsh_by_kernels_as_without(by_kernels: None) -> None:
    A, w = laplacian(8)
    for matrix in (A, ms.sparse.matrix(A)):
        found, v = eigsh(matrix, 4, which="SA", tol=1e-9)
        check_pairs(A, found, v, w[:4], 1e-9)


def test_eigsh_where_krylov_spaces_end() -> None:
    values = np.repeat([1.0, 2.0, 5.0], [100, 97, 3])
    A = sparse.diags_array(values).tocsr()
    found, v = eigsh(A, 5, which="LA")
    check_pairs(A, found, v, [2, 2, 5, 5, 5], 1e-12)
    found, _ = eigsh(sparse.eye_array(80, format="csr"), 3)
    assert np.allclose(found, 1)
    found, v, run = eigsh(sparse.diags_array(np.arange(12.0)).tocsr(), 3, report=True)  # no room for a basis
    check_pairs(sparse.diags_array(np.arange(12.0)), found, v, [9, 10, 11], 1e-12)
    assert "dense" in run.method


def test_eigsh_starts_and_ends_as_told() -> None:
    A, w = laplacian(8)
    exact = eigsh(A, 4, which="SA", tol=1e-10)[1]
    heard: list[Any] = []
    _, _, fresh = eigsh(A, 4, which="SA", tol=1e-6, report=True)
    found, _, run = eigsh(A, 4, which="SA", v0=exact, tol=1e-6, callback=lambda *told: heard.append(told), report=True)
    assert np.abs(found - w[:4]).max() <= 1e-9 and run.iterations < fresh.iterations
    assert len(heard) == len(run.residuals) - 1 and all(len(told[1]) == 4 for told in heard)
    found = eigsh(A, 3, which="SA", v0=np.ones(512), ncv=20, block=2, tol=1e-8, return_eigenvectors=False)
    assert np.abs(found - w[:3]).max() <= 1e-9
    with pytest.raises(scipy_linalg.ArpackNoConvergence, match="raise maxiter") as told:
        eigsh(A, 6, which="SA", maxiter=1)
    assert len(told.value.eigenvalues) == told.value.eigenvectors.shape[1] < 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"which": "SM"}, "use 'SA'"),
        ({"sigma": 0.0}, "factorization"),
        ({"M": np.eye(64)}, "use lobpcg"),
        ({"which": "XX"}, "which='XX'"),
        ({"k": 64}, "k=64"),
        ({"k": 0}, "k=0"),
        ({"ncv": 9}, "ncv=9"),
        ({"v0": np.ones(7)}, "do not match"),
        ({"v0": np.ones((64, 3)), "block": 2}, "block=2"),
        ({"A": np.ones((64, 3))}, "do not match"),
    ],
)
def test_eigsh_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        eigsh(**({"A": laplacian(4)[0]} | options))


def test_unsymmetric_matrices_are_refused() -> None:
    A = matrices.convection_diffusion((6, 6, 6), 1.5)
    with pytest.raises(ValueError, match="not Hermitian"):
        eigsh(A, 2)
    with pytest.raises(ValueError, match="not Hermitian"):
        lobpcg(A, random(216, 4))


# --- Propagator ----------------------------------------------------------------------------------------------


def test_propagators_serve_many_vectors() -> None:
    A, B = matrices.graphene(12, 12, disorder=0.2), random(144, 3, dtype=complex)
    step = Propagator(A, -0.5j)
    planned = step.report.products
    X = B
    for _ in range(4):
        X = step(X)
    expected = expm_multiply(A, B, -2j)
    assert np.abs(X - expected).max() <= 1e-12 and step.report.products > planned
    assert np.array_equal(step(B[:, 0]), expm_multiply(A, B[:, 0], -0.5j))
    assert step(B.real[:, 0].astype("float32")).dtype == "complex128"
    assert step.interval is not None and step.interval[0] < -2.5
    with pytest.raises(ValueError, match="is not defined"):
        step(np.ones(7))


@pytest.mark.parametrize("kind", ["stored", "library", "unsymmetric"])
def test_propagators_call_back_with_products_and_sizes(kind: str) -> None:
    """The same sizes as in the report; the count of products begins anew with every application."""
    A = matrices.graphene(12, 12) if kind != "unsymmetric" else -matrices.convection_diffusion((6, 6), 0.7)
    seen: list[tuple[int, float]] = []
    step = Propagator(
        ms.sparse.matrix(A) if kind == "stored" else A, 4.0, callback=lambda count, size: seen.append((count, size))
    )
    before, sizes = step.report.products, len(step.report.residuals)
    b = random(A.shape[0])
    step(b)
    once = list(seen)
    assert len(once) > 1 and [size for _, size in once] == step.report.residuals[sizes:]
    counts = [count for count, _ in once]
    assert counts == sorted(set(counts)) and counts[-1] == step.report.products - before
    step(b)
    assert seen == once * 2
    seen.clear()
    expm_multiply(A, b, 4.0, callback=lambda count, size: seen.append((count, size)))
    assert seen and [count for count, _ in seen] == sorted({count for count, _ in seen})


@pytest.mark.parametrize("t", [-4j, -0.7])
def test_our_matrices_take_hardly_more_products_than_scipys(t: complex) -> None:
    A, b = matrices.graphene(12, 12, disorder=0.2), random(144, dtype=complex)
    expected, theirs = expm_multiply(A, b, t, report=True)
    for format in ("csr", "sell"):
        x, run = expm_multiply(ms.sparse.matrix(A, format=format), b, t, report=True)
        assert np.linalg.norm(x - expected) <= 1e-12 * np.linalg.norm(expected)
        assert run.products <= theirs.products + 8
    X = np.stack((b, 2 * b), axis=1)
    assert np.allclose(expm_multiply(ms.sparse.matrix(A), X, t), np.stack((expected, 2 * expected), axis=1), atol=1e-11)


def test_our_unsymmetric_matrices() -> None:
    A, b = -matrices.convection_diffusion((6, 6), 0.7), random(36)
    x, run = expm_multiply(ms.sparse.matrix(A), b, 2.0, report=True)
    assert np.allclose(x, expm_multiply(A, b, 2.0), rtol=1e-11) and "Taylor" in run.method
    twice = Propagator(ms.sparse.matrix(A), 1.0)
    assert np.allclose(twice(twice(b)), x, rtol=1e-11)


def test_too_narrow_an_interval_is_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    A, b = matrices.graphene(12, 12), random(144, dtype=complex)
    monkeypatch.setattr(spectrum, "lanczos", lambda *_, **__: (-2.0, 2.0))
    step = Propagator(scipy_linalg.aslinearoperator(A), -8j)
    assert np.abs(step(b) - expm_multiply(A, b, -8j)).max() <= 1e-11 and "terms grew" in str(step.report)
    assert step.interval == (-4.0, 4.0)
    with pytest.raises(ValueError, match="outside"):
        expm_multiply(scipy_linalg.aslinearoperator(A), b, -8j, bounds="lanczos")


def test_lanczos_makes_the_steps_that_pay() -> None:
    A = matrices.graphene(20, 20)
    w = np.linalg.eigvalsh(A.toarray())
    products = []
    for t in (0.1, 1e4):
        run = Report("test")
        found = spectrum.lanczos(A, np, run, t=t, check=True)
        assert found is not None and found[0] <= w[0] and w[-1] <= found[1]
        products.append(run.products)
    assert products[0] < products[1] <= 24
    for other in (matrices.convection_diffusion((5, 5)), 1j * A):
        assert spectrum.lanczos(other, np, Report("test"), check=True) is None
