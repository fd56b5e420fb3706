"""gmres and expm_multiply against SciPy's, what they report, and bases that rounding spoils."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import linalg as scipy_linalg

from mansard.sparse import matrices
from mansard.sparse.linalg import expm_multiply, gmres, krylov, panels, series, spectrum
from mansard.sparse.linalg.powers import Recurrence, change_of_basis, chebyshev, leja, monomial, newton, powers
from mansard.sparse.linalg.report import Report


def random_vector(count: int, dtype: Any = np.float64, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(count)
    return (x + 1j * rng.standard_normal(count) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def system(name: str) -> tuple[Any, Any]:
    if name == "hpcg":
        A, b, _ = matrices.hpcg((8, 8, 8))
        return A, b
    if name == "convection":  # eigenvalues off the real axis: pairs of shifts
        A = matrices.convection_diffusion((10, 10, 10), 1.5)
        return A, random_vector(1000)
    A = matrices.anderson((8, 8, 8), disorder=4.0, dtype=np.complex128)
    return A + (12 + 4j) * sparse.eye_array(512, format="csr"), random_vector(512, complex)


# --- Powers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(512,), (512, 2), (512, 1)], ids=str)
def test_powers_of_large_matrices_are_blocked(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    A, _ = system("anderson")
    x = random_vector(int(np.prod(shape)), complex).reshape(shape)
    recurrence = chebyshev(4, -2.0, 7.0)
    wanted = powers(A, 4, *recurrence)(x)
    monkeypatch.setattr("mansard.sparse.linalg.powers._LARGE", 1)
    plan = powers(A, 4, *recurrence)
    found = plan(x)
    assert type(plan).__name__ == "_Blocked" and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * abs(wanted).max())


@pytest.mark.parametrize(
    "recurrence",
    [
        monomial(4, 3.0),
        chebyshev(5, -2.0, 7.0),
        newton([3.0, -1.0, 2.0], 2.0),
        newton([1 + 2j, 1 - 2j, 0.5 + 0j, 3 + 1j, 3 - 1j], 2.0, real=True),
        newton([1 + 2j, 0.5 - 1j], 2.0),
    ],
)
def test_recurrences_and_their_change_of_basis(recurrence: Recurrence) -> None:
    A = np.random.default_rng(1).standard_normal((12, 12))
    complex_ones = any(np.iscomplexobj(part) for part in recurrence)
    x = random_vector(12, complex if complex_ones else float)
    p = len(recurrence.alphas)
    V = powers(A, p, *recurrence)(x)
    assert V.shape == (p + 1, 12) and np.array_equal(V[0], x)
    assert np.allclose(A @ V[:p].T, V.T @ change_of_basis(recurrence), rtol=1e-12)


def test_chebyshev_basis_is_that_of_the_interval() -> None:
    points = np.linspace(-2.0, 7.0, 9)
    V = powers(np.diag(points), 6, *chebyshev(6, -2.0, 7.0))(np.ones(9))
    assert np.allclose(V[6], np.cos(6 * np.arccos((points - 2.5) / 4.5)))


def test_newton_basis_of_pairs_is_real_and_that_of_the_shifts() -> None:
    A = np.random.default_rng(1).standard_normal((6, 6))
    x = random_vector(6)
    shifts = [1 + 2j, 1 - 2j, 0.25 + 0j]
    V = powers(A, 3, *newton(shifts, 2.0, real=True))(x)
    expected = x.astype(complex)
    for shift in shifts:
        expected = (A @ expected - shift * expected) / 2
    assert V.dtype == np.float64 and np.allclose(V[3], expected)
    with pytest.raises(ValueError, match="does not follow its conjugate"):
        newton([1 - 2j, 1 + 2j], real=True)


def test_blocks_of_vectors() -> None:
    A, X = np.random.default_rng(0).standard_normal((2, 5, 5))
    V = powers(A, 2, *monomial(2))(X)
    assert V.shape == (3, 5, 5) and np.allclose(V[2], A @ A @ X)


def test_leja_order() -> None:
    assert leja([0, 1, 2.2, 4], 4, real=True) == [4, 0, 2.2, 1]
    assert leja([0, 1, 2.2, 4], 2, real=True) == [4, 0]
    pairs = leja([1 + 2j, 1 - 2j, -3, 0.1 + 1e-15j], 4, real=True)
    assert pairs == [-3, 1 + 2j, 1 - 2j, 0.1]
    assert leja([1 + 2j, 1 - 2j], 3, real=True) == [1 + 2j, 1 - 2j, 1]  # half a pair is no step
    assert leja([2.0], 3, real=True) == [2.0] * 3
    huge = leja(np.linspace(0, 1e200, 40), 40, real=True)
    assert len(set(huge)) == 40


# --- gmres ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hpcg", "convection", "anderson"])
@pytest.mark.parametrize(("s", "basis"), [(1, "newton"), (3, "monomial"), (4, "newton"), (5, "newton"), (8, "newton")])
def test_as_many_iterations_as_scipy(name: str, s: int, basis: str) -> None:
    A, b = system(name)
    told: list[float] = []
    expected, _ = scipy_linalg.gmres(A, b, rtol=1e-9, restart=12, callback=told.append, callback_type="pr_norm")
    heard: list[float] = []
    x, info, report = gmres(
        A, b, rtol=1e-9, restart=12, s=s, basis=basis, callback=heard.append, callback_type="pr_norm", report=True
    )
    assert info == 0 and np.linalg.norm(b - A @ x) <= 1e-9 * np.linalg.norm(b)
    assert np.allclose(x, expected, rtol=0, atol=1e-7 * np.abs(expected).max())
    assert abs(report.iterations - len(told)) <= 1 and len(heard) == report.iterations
    assert heard[:20] == pytest.approx(told[:20], rel=1e-6)
    assert report.products >= report.iterations and report.passes == report.products
    assert report.residuals[-1] == pytest.approx(np.linalg.norm(b - A @ x), rel=1e-6)
    assert f"{report.iterations} iterations" in str(report)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64"])
def test_dtypes(dtype: str) -> None:
    A = matrices.stencil(7, (6, 6, 6), dtype=dtype)
    A = (A + 3 * sparse.eye_array(216, format="csr", dtype=dtype)).tocsr()
    b = (10 * random_vector(216)).astype(dtype)
    x, info = gmres(A, b, rtol=1e-4)
    assert info == 0 and x.dtype == (np.float64 if dtype == "int64" else dtype)
    assert np.linalg.norm(b - A @ x) <= 1.01e-4 * np.linalg.norm(b)


def test_long_blocks_are_orthonormalised_by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(krylov, "_WORTH", 1)
    A, b = system("convection")
    x, info, report = gmres(A, b, rtol=1e-8, restart=10, s=5, report=True)
    monkeypatch.setattr(krylov, "_WORTH", 1 << 40)
    y, _, other = gmres(A, b, rtol=1e-8, restart=10, s=5, report=True)
    assert info == 0 and report.iterations == other.iterations
    assert np.allclose(x, y, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_orthonormalised_rows(dtype: str) -> None:
    Q = np.linalg.qr(random_vector(60 * 4, dtype).reshape(60, 4))[0].T.copy()
    V = random_vector(3 * 60, dtype, 1).reshape(3, 60)
    V[2] = 2 * V[0] - Q[1]
    new, R, C, dependent = krylov.orthonormalised(V, Q)
    assert dependent.tolist() == [False, False, True]
    assert np.allclose(Q.T @ C + new.T @ R, V.T)
    assert np.allclose(new[:2].conj() @ new[:2].T, np.eye(2)) and np.abs(Q.conj() @ new.T).max() < 1e-14


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("count", [1, 5, 8])
@pytest.mark.parametrize(
    "kind", ["fair", "graded", "copy of the basis", "copies", "doubtful", "ill conditioned", "zero"]
)
def test_orthonormalised_beside_a_basis(kind: str, count: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one wait where that keeps digits, by slower steps elsewhere: the same promises."""
    monkeypatch.setattr(krylov, "_WORTH", 1)
    eps, n, s = float(np.finfo(dtype).eps), 500, 4
    Q = np.zeros((panels.padded(count + s), n), dtype)
    Q[:count] = np.linalg.qr(random_vector(n * count, dtype).reshape(n, count))[0].T
    V = random_vector(s * n, dtype, 1).reshape(s, n).astype(dtype)
    V += 3 * Q[0]
    dependent = [False] * s
    if kind == "graded":
        V *= np.geomspace(1, 1e-6, s, dtype=dtype)[:, None]
    elif kind == "copy of the basis":
        V[1], dependent[1] = 2 * Q[count - 1], True
    elif kind == "copies":
        V[2], dependent[2] = V[0] - V[1], True
    elif kind == "doubtful":
        V[3] = V[0] + eps**0.3 * V[3]
    elif kind == "ill conditioned":
        V[3] = V[0] + 20 * eps**0.5 * V[3]
    elif kind == "zero":
        V[0], dependent[0] = 0, True
    before, sizes = V.copy(), np.linalg.norm(V, axis=1)
    new, R, C, flags = panels.orthonormalised(V, Q, count, krylov.orthonormalised)
    assert new.dtype == R.dtype == dtype and np.abs(np.tril(R, -1)).max() == 0
    whole = dependent.index(True) if any(dependent) else s  # nothing can follow in a Krylov basis
    assert flags[: whole + 1].tolist() == dependent[: whole + 1]
    together = np.concatenate((Q[:count], new[:whole]))
    assert np.abs(together.conj() @ together.T - np.eye(len(together))).max() < 1e4 * eps
    rest = np.linalg.norm(Q[:count].T @ C + new.T @ R - before.T, axis=0)[: whole + 1]
    assert (rest <= 100 * eps * sizes[: whole + 1]).all()


def test_preconditioned_from_the_right() -> None:
    A = matrices.anderson((6, 6, 6), disorder=50.0)
    A = (A + 60 * sparse.eye_array(216, format="csr")).tocsr()
    scaling = np.geomspace(1, 1e3, 216)
    A = sparse.csr_array(sparse.diags_array(scaling) @ A)
    b = random_vector(216)
    inverse = sparse.diags_array(1 / A.diagonal())
    _, info, plain = gmres(A, b, rtol=1e-8, report=True, maxiter=5)
    x, info, report = gmres(A, b, rtol=1e-8, M=inverse, report=True)
    assert info == 0 and report.iterations < plain.iterations
    assert np.linalg.norm(b - A @ x) <= 1e-8 * np.linalg.norm(b)


def test_starting_vector_operators_and_columns() -> None:
    A, b = system("hpcg")
    x0 = np.ones(512) + 1e-6 * random_vector(512)
    x, info, report = gmres(scipy_linalg.aslinearoperator(A), b[:, None], x0, rtol=1e-6, report=True)
    assert info == 0 and x.shape == (512,) and np.array_equal(x0, np.ones(512) + 1e-6 * random_vector(512))
    _, _, fresh = gmres(A, b, rtol=1e-6, report=True)
    assert report.iterations < fresh.iterations
    seen: list[Any] = []
    gmres(A, b, rtol=1e-6, restart=5, callback=seen.append, callback_type="x")
    assert len(seen) >= 2 and all(np.shape(x) == (512,) for x in seen)


def test_solved_in_as_many_steps_as_there_are_dimensions() -> None:
    for n in (1, 2, 3, 7):
        A = sparse.csr_array(np.random.default_rng(n).standard_normal((n, n)) + 4 * np.eye(n))
        b = random_vector(n)
        x, info = gmres(A, b, rtol=1e-12)
        assert info == 0 and np.allclose(A @ x, b)
    identity = sparse.eye_array(50, format="csr")
    x, info, report = gmres(identity, np.ones(50), report=True)
    assert info == 0 and report.iterations == 1 and np.allclose(x, 1)


def test_a_spoilt_basis_halves_the_step() -> None:
    def spoilt(A: Any, p: int, *recurrence: Any) -> Any:
        plan, rng = powers(A, p, *recurrence), np.random.default_rng(p)
        return plan if p == 1 else lambda x: (V := plan(x)) + 0.3 * rng.standard_normal(V.shape)

    A, b = system("convection")
    x, info, report = gmres(A, b, s=4, restart=12, rtol=1e-9, powers=spoilt, report=True)
    assert [note[-10:] for note in report.notes] == ["s is now 2", "s is now 1"]
    assert info == 0 and np.linalg.norm(b - A @ x) <= 1e-9 * np.linalg.norm(b)


@pytest.mark.parametrize("basis", ["monomial", "newton"])
def test_bases_that_are_dependent_to_working_precision(basis: str) -> None:
    A = sparse.csr_array(sparse.diags_array(np.geomspace(1, 1e4, 300)))
    b = random_vector(300)
    x, info, report = gmres(A, b, s=24, restart=48, rtol=1e-8, basis=basis, report=True)
    assert info == 0 and np.linalg.norm(b - A @ x) <= 1e-8 * np.linalg.norm(b)
    assert report.iterations < 3000


def test_no_answer_is_said_so() -> None:
    A, b = system("convection")
    _, info, report = gmres(A, b, rtol=1e-12, maxiter=2, restart=5, report=True)
    assert info == report.iterations == 10
    singular = sparse.csr_array(np.diag([1.0, 2.0, 0.0]))
    x, info = gmres(singular, np.ones(3), maxiter=50)
    assert info > 0 and np.isfinite(x).all()
    x, info = gmres(A, np.zeros(1000))
    assert info == 0 and not x.any()
    b[3] = np.nan
    assert gmres(A, b)[1] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"s": 0}, "s=0"),
        ({"basis": "legendre"}, "basis='legendre'"),
        ({"callback_type": "y"}, "callback_type='y'"),
        ({"rtol": -1.0}, "not negative"),
        ({"x0": np.ones(7)}, r"x0 has shape \(7,\)"),
        ({"b": np.ones(7)}, r"b has shape \(7,\)"),
        ({"A": sparse.csr_array((3, 4))}, "square"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    A, b = system("hpcg")
    with pytest.raises(ValueError, match=message):
        gmres(**({"A": A, "b": b} | options))


def test_powers_are_the_callers_to_choose() -> None:
    asked: list[int] = []

    def blocked(A: Any, p: int, *recurrence: Any) -> Any:
        asked.append(p)
        plan = powers(A, p, *recurrence)
        plan.passes = 1  # type: ignore[attr-defined]
        return plan

    A, b = system("hpcg")
    _, info, report = gmres(A, b, rtol=1e-9, restart=10, s=5, powers=blocked, report=True)
    assert info == 0 and asked == [1, 5] and report.passes < 0.8 * report.products
    _, ours = expm_multiply(-A, b, 0.1, powers=blocked, report=True)
    assert ours.passes < ours.products


# --- expm_multiply -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", ["gershgorin", "lanczos", (-8.0, 8.5)])
@pytest.mark.parametrize("t", [-1j, 3j, 0.5, -0.5, 0.3 - 0.2j])
@pytest.mark.parametrize("s", [1, 8])
def test_propagation(bounds: Any, t: complex, s: int) -> None:
    A = matrices.anderson((6, 6, 6), disorder=2.0, seed=2)
    b = random_vector(216)
    x, report = expm_multiply(A, b, t, bounds=bounds, s=s, report=True)
    expected = scipy_linalg.expm_multiply(t * A, b.astype(complex))
    assert np.linalg.norm(x - expected) <= 1e-12 * np.linalg.norm(expected)
    assert np.iscomplexobj(x) == (complex(t).imag != 0)
    if complex(t).real == 0:
        assert np.linalg.norm(x) == pytest.approx(np.linalg.norm(b), rel=1e-13)
    assert report.products >= report.iterations > 0 and "Chebyshev" in str(report) and report.residuals[-1] < 1e-10


def test_long_propagation_stays_unitary() -> None:
    A = matrices.graphene(12, 12, disorder=0.2)
    b = random_vector(144, complex)
    x, report = expm_multiply(A, b, -200j, report=True)
    w, U = np.linalg.eigh(A.toarray())
    expected = U @ (np.exp(-200j * w) * (U.T @ b))
    assert report.iterations > 600
    assert np.linalg.norm(x - expected) <= 1e-10 * np.linalg.norm(b)
    assert np.linalg.norm(x) == pytest.approx(np.linalg.norm(b), rel=1e-11)


def test_diffusion_needs_the_root_of_the_products() -> None:
    A, b = -matrices.stencil(7, (6, 6, 6)), random_vector(216)
    products = []
    for t in (1.0, 100.0):
        x, report = expm_multiply(A, b, t, report=True)
        expected = scipy_linalg.expm_multiply(t * A, b)
        assert np.linalg.norm(x - expected) <= 1e-12 * np.linalg.norm(b)
        products.append(report.products)
    assert products[1] < 15 * products[0]


@pytest.mark.parametrize("t", [0.1, 1.0, -1.0, 3.0 + 1j, 12.0])
def test_unsymmetric_matrices(t: complex) -> None:
    A, B = -matrices.convection_diffusion((6, 6), 0.7), random_vector(36 * 3).reshape(36, 3)
    x, report = expm_multiply(A, B, t, report=True)
    expected = scipy_linalg.expm_multiply(t * A, B)
    assert np.linalg.norm(x - expected) <= 1e-12 * np.linalg.norm(expected)
    assert "Taylor" in report.method and report.products <= report.iterations + 2


def test_hermitian_matrices_are_recognised() -> None:
    run = Report("test")
    for A in (matrices.topological_insulator((3, 3, 3)), matrices.graphene(5, 5), matrices.band(9, 3, dtype="float32")):
        assert spectrum.is_hermitian(A, np, run)
    changed = matrices.topological_insulator((3, 3, 3))
    changed.data[5] *= 1 + 1e-6
    for A in (changed, matrices.convection_diffusion((4, 4)), 1j * matrices.graphene(5, 5)):
        assert not spectrum.is_hermitian(A, np, run)
    assert run.products == 12


def test_bounds_hold_the_spectrum() -> None:
    for A in (matrices.anderson((5, 5, 5)), matrices.topological_insulator((3, 3, 3), mass=1.0), matrices.roads(6)):
        w = np.linalg.eigvalsh(A.toarray())
        for low, high in (spectrum.gershgorin(A), spectrum.lanczos(A, np, Report("test"))):
            assert low <= w[0] + 1e-10 and w[-1] <= high + 1e-10
    assert spectrum.gershgorin(sparse.csr_array((4, 4))) == (0.0, 0.0)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int64"])
def test_expm_dtypes(dtype: str) -> None:
    A = -matrices.stencil(5, (6, 6), dtype=dtype)
    b = np.ones(36, dtype)
    x = expm_multiply(A, b, 0.5)
    assert x.dtype == (np.float64 if dtype == "int64" else dtype)
    expected = scipy_linalg.expm_multiply(0.5 * A.astype(complex), np.ones(36))
    assert np.linalg.norm(x - expected) <= 20 * np.finfo(x.dtype).eps * np.linalg.norm(expected)


def test_tolerances_save_products() -> None:
    A, b = matrices.graphene(10, 10), random_vector(100, complex)
    exact, full = expm_multiply(A, b, -5j, report=True)
    rough, few = expm_multiply(A, b, -5j, tol=1e-4, report=True)
    assert few.products < full.products and 1e-12 < np.linalg.norm(exact - rough) <= 1e-4 * np.linalg.norm(b)


def test_series_of_the_exponential() -> None:
    for t, low, high in ((-30j, -1.0, 2.0), (4.0, -50.0, 0.0), (1 + 1j, -3.0, 3.0), (1e-3, 1.0, 2.0)):
        terms = series.chebyshev_terms(t, low, high, 1e-16)
        x = np.linspace(low, high, 101)
        found = np.polynomial.chebyshev.chebval((2 * x - low - high) / (high - low), terms)
        assert np.abs(found - np.exp(t * x)).max() <= 1e-13 * np.abs(np.exp(t * x)).max() * (1 + abs(t))
    for size in (1e-3, 1.0, 40.0):
        steps, degree = series.taylor_steps(size, 1e-16)
        term = np.exp((degree + 1) * np.log(size / steps) - np.sum(np.log(np.arange(1, degree + 2))))
        assert term * steps <= 1.01e-16


@pytest.mark.filterwarnings("ignore:invalid value")
def test_trivial_and_refused() -> None:
    A, b = matrices.graphene(4, 4), random_vector(16)
    assert np.array_equal(expm_multiply(A, b, 0.0), b)
    identity = 3 * sparse.eye_array(16, format="csr")
    assert np.allclose(expm_multiply(identity, b, 0.5), np.exp(1.5) * b, rtol=1e-14)
    assert np.allclose(expm_multiply(sparse.csr_array((16, 16)), b, 2.0), b, rtol=1e-14)
    with pytest.raises(ValueError, match="outside"):
        expm_multiply(20 * A, b, -20j, bounds=(-1.0, 1.0))
    with pytest.raises(ValueError, match="bounds='all'"):
        expm_multiply(A, b, 1.0, bounds="all")
    with pytest.raises(ValueError, match="is not defined"):
        expm_multiply(A, np.ones(15))
    with pytest.raises(ValueError, match="no interval"):
        expm_multiply(A, b, bounds=(2.0, 1.0))
    operator = scipy_linalg.aslinearoperator(matrices.convection_diffusion((4, 4)))
    with pytest.raises(TypeError, match="not Hermitian"):
        expm_multiply(operator, b)
    x = expm_multiply(scipy_linalg.aslinearoperator(A), b, -1j)
    assert np.allclose(x, expm_multiply(A, b, -1j), atol=1e-12)
    b[0] = np.inf
    with pytest.raises(ValueError, match="not finite"):
        expm_multiply(A, b, -1j)
