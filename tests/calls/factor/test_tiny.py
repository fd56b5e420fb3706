"""Tiny systems, wide QR and least squares: launches of warm calls are counted; results in every form of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from conftest import needs_cpu
from linalg_cases import adjoint, normal
from sparing import rotated
from systems_cases import integers

import mansard as ms
from mansard.backends.emulated import EmulatedLaunch
from mansard.operations import warm
from mansard.operations.factor import tiny
from mansard.operations.factor.kernel import KernelRun

pytestmark = pytest.mark.usefixtures("no_plans")

linalg = ms.linalg
DTYPES = ("float64", "complex64")


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The kernels that the emulator launches, by the first line of their text."""
    found: list[str] = []
    launch = EmulatedLaunch.__call__

    def counted(self: EmulatedLaunch, *arguments: Any) -> None:
        found.append(self._kernel.source.text.splitlines()[0].removeprefix("// "))
        launch(self, *arguments)

    monkeypatch.setattr(EmulatedLaunch, "__call__", counted)
    yield found


def system(dtype: str, batch: int, n: int, k: int) -> tuple[Any, Any, Any]:
    """Unit triangles in another order of rows, and integer solutions: exact in any order of arithmetic."""
    rng = np.random.default_rng(n)
    A = np.triu(integers(rng, (batch, n, n), dtype), 1) + np.eye(n, dtype=dtype)
    A, X = A[:, rng.permutation(n)], integers(rng, (batch, n, k), dtype)
    return A, X, A @ X


@needs_cpu
@rotated(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_warm_calls_are_one_launch(dtype: str, launches: list[str]) -> None:
    """Whatever follows the first calls: with and without `out`, and with vectors."""
    A, X, B = system(dtype, 5, 3, 42)
    H = A @ adjoint(A)
    factors, C = linalg.lu_factor(A, backend="emulated"), np.linalg.cholesky(H).astype(dtype)
    out = np.empty_like(B)
    calls: dict[str, tuple[Callable[[], Any], Any]] = {
        "solve": (lambda: linalg.solve(A, B, backend="emulated"), X),
        "solve into": (lambda: linalg.solve(A, B, out=out, backend="emulated"), X),
        "positive": (lambda: H @ linalg.solve(H, B, assume_a="pos", backend="emulated"), B),
        "lu_solve": (lambda: linalg.lu_solve(factors, B, backend="emulated"), X),
        "lu_solve into": (lambda: linalg.lu_solve(factors, B, out=out, backend="emulated"), X),
        "transposed": (lambda: A.swapaxes(1, 2) @ linalg.lu_solve(factors, B, 1, backend="emulated"), B),
        "adjoint": (lambda: adjoint(A) @ linalg.lu_solve(factors, B, 2, backend="emulated"), B),
        "a vector": (lambda: linalg.lu_solve((factors[0], factors[1]), B[0, :, 0], backend="emulated")[0], X[0, :, 0]),
        "cho_solve": (lambda: H @ linalg.cho_solve((C, True), B, backend="emulated"), B),
        "cho_solve into": (lambda: H @ linalg.cho_solve((adjoint(C), False), B, out=out, backend="emulated"), B),
    }  # fmt: skip
    for name, (call, expected) in calls.items():
        first, _ = call(), call()
        launches.clear()
        found = call()
        assert len(launches) == 1 and launches[0].startswith("systems: "), (name, launches)
        assert np.array_equal(found, first), name
        tolerance = 2000 * float(np.finfo(dtype).eps)
        exact = name.startswith(("solve", "lu_solve", "a vector"))
        assert np.array_equal(found, expected) if exact else np.allclose(found, expected, atol=tolerance), name


@needs_cpu
def test_an_overlapping_place_is_written_last(launches: list[str]) -> None:
    """`out` may be b, or part of it, in first calls as in later ones."""
    A, X, B = system("float64", 4, 3, 12)
    factors = linalg.lu_factor(A, backend="emulated")
    C = np.linalg.cholesky(A @ adjoint(A))
    for solve in (lambda b, out: linalg.solve(A, b, out=out, backend="emulated"),
                  lambda b, out: linalg.lu_solve(factors, b, out=out, backend="emulated")):  # fmt: skip
        for _ in range(3):
            b = B.copy()
            assert solve(b, b) is b and np.array_equal(b, X)
            whole = np.concatenate([B, 0 * B[:1]])
            assert np.array_equal(solve(whole[:4], whole[1:]), X)
    for _ in range(3):
        b = B.copy()
        assert linalg.cho_solve((C, True), b, out=b, backend="emulated") is b
        assert np.allclose(A @ adjoint(A) @ b, B, atol=1e-9)


@needs_cpu
def test_operands_in_any_layout_are_not_copied(launches: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns, gaps, every other entry, the batch last, and backwards."""
    A, X, B = system("float64", 6, 4, 10)
    layouts = {
        "columns": lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2),
        "every other": lambda x: np.repeat(np.repeat(x, 2, 1), 2, 2)[:, ::2, ::2],
        "batch last": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0),
        "turned around": lambda x: np.ascontiguousarray(x[:, ::-1])[:, ::-1],
    }  # fmt: skip
    lu, piv = linalg.lu_factor(A, backend="emulated")
    monkeypatch.setattr(KernelRun, "_copied", None)
    for name, lay in layouts.items():
        launches.clear()
        found = linalg.solve_ex(lay(A), lay(B), backend="emulated")
        assert np.array_equal(found[0], X) and not found[1].any(), name
        assert np.array_equal(linalg.lu_solve((lay(lu), piv), lay(B), backend="emulated"), X), name
        assert len(launches) == 2, (name, launches)
    monkeypatch.undo()


@needs_cpu
def test_one_matrix_or_right_hand_side_for_all(launches: list[str]) -> None:
    A, X, B = system("float64", 6, 4, 10)
    lu, piv = linalg.lu_factor(A, backend="emulated")
    launches.clear()
    many = np.broadcast_to(B[0], (6, 4, 10))
    assert np.array_equal(linalg.lu_solve((lu[0], piv[0]), B[:1] + 0 * B, backend="emulated")[5], X[0])
    assert np.array_equal(A @ linalg.lu_solve((lu, piv), B[0], backend="emulated"), many)
    assert np.array_equal(A @ linalg.solve(A, B[0], backend="emulated"), many)
    assert len(launches) == 3, launches


@needs_cpu
def test_other_operands_take_the_way_of_before(launches: list[str]) -> None:
    """Lists, leading dimensions without a common stride, larger matrices, and pivots of other integers."""
    A, X, B = system("float64", 6, 4, 10)
    assert np.array_equal(np.stack(linalg.solve(list(A), list(B), backend="emulated")), X)
    a, b, x = (one.reshape(2, 3, *one.shape[1:]) for one in (A, B, X))
    assert np.array_equal(linalg.solve(a[:, ::2], b[:, ::2], backend="emulated"), x[:, ::2])
    lu, piv = linalg.lu_factor(A, backend="emulated")
    assert np.array_equal(linalg.lu_solve((lu, piv.astype(np.int64)), B, backend="emulated"), X)
    assert np.array_equal(linalg.lu_solve((lu[:2, None], piv[:2, None]), B[:3], backend="emulated")[1, 2],
                          linalg.lu_solve((lu[1], piv[1]), B[2], backend="emulated"))  # fmt: skip
    with ms.pin(VARIANT="vendor"):
        assert np.array_equal(linalg.lu_solve((lu, piv), B, backend="emulated"), X)
    assert warm.recall((tiny.BY_LU[0], "emulated"), (list(lu), piv, B), None) is None


@needs_cpu
def test_singular_systems_are_told() -> None:
    A, X, B = system("float64", 3, 3, 20)
    A[1, :, 2] = 0
    for _ in range(3):
        x, info = linalg.solve_ex(A, B, backend="emulated")
        assert list(info) == [0, 3, 0] and np.array_equal(x[[0, 2]], X[[0, 2]])
        with pytest.raises(np.linalg.LinAlgError, match=r"a\[1\] is singular: pivot 2"):
            linalg.solve(A, B, backend="emulated")
    H = A @ adjoint(A)
    H[2, 0, 0] = -1
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[1\] is not positive definite"):
        linalg.solve(H, B, assume_a="pos", backend="emulated")


@needs_cpu
def test_plans_name_the_launch_and_its_reason() -> None:
    A, _, B = system("float64", 3, 4, 20)
    text = ms.plan("solve", A, B, backend="emulated").explain()
    assert "systems float64 M=4 N=4 NRHS=20" in text and "VARIANT=columns" in text
    assert "20 right-hand sides: beyond 8 factors and triangular solves do better, unless matrices are tiny" in text
    lu = linalg.lu_factor(A)
    plan = ms.plan("lu_solve", lu, B, backend="emulated")
    assert "want=lu" in plan.explain() and "trsm" not in plan.explain()
    assert np.allclose(A @ plan(lu, B), B)
    H = A @ adjoint(A)
    C = np.linalg.cholesky(H)
    plan = ms.plan("cho_solve", (C, True), B, backend="emulated")
    assert "want=cholesky" in plan.explain() and np.allclose(H @ plan((C, True), B), B)
    assert "trsm" in ms.plan("lu_solve", (np.eye(40), np.arange(40, dtype=np.int32)), np.ones((40, 3)),
                             backend="emulated").explain()  # fmt: skip


@needs_cpu
def test_rows_are_exchanged_on_the_way_to_the_solutions(launches: list[str]) -> None:
    """Beyond tiny systems: factors, rows from b to x, and two triangles; b stays as it is."""
    A, X, B = system("float64", 3, 40, 12)
    kept = B.copy()
    for solve in (lambda: linalg.solve(A, B, backend="emulated"),
                  lambda: linalg.lu_solve(linalg.lu_factor(A, backend="emulated"), B, backend="emulated")):  # fmt: skip
        for _ in range(3):
            launches.clear()
            assert np.array_equal(solve(), X) and np.array_equal(B, kept)
            assert [text.split(":")[0] for text in launches] == ["lu", "lu", "trsm", "trsm"]
    one = linalg.lu_factor(A[0], backend="emulated")
    assert np.array_equal(A[0] @ linalg.lu_solve(one, B, backend="emulated"), B)


@needs_cpu
@rotated(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants_of_factors_are_one_launch_more(dtype: str, launches: list[str]) -> None:
    """Beyond one kernel: blocks of factors, then all determinants at once."""
    A, _, _ = system(dtype, 2, 140, 1)
    A[1, :, 3] = 0
    found, expected = linalg.slogdet(A, backend="emulated"), np.linalg.slogdet(A)
    assert np.array_equal(found[0], expected[0]) and np.allclose(found[1], expected[1], atol=1e-4)
    launches.clear()
    assert np.array_equal(linalg.det(A, backend="emulated"), [expected[0][0], 0])
    assert [text.split(",")[0] for text in launches].count("systems: determinant") == 1


# ---- least squares ------------------------------------------------------------------------------------------------


@needs_cpu
@rotated(3)
@pytest.mark.parametrize("lead, m, n, k", [((), 18, 1, 7), ((5,), 3, 1, 1), ((2, 3), 9, 4, 2), ((4,), 6, 6, 3)])
def test_least_squares_are_two_launches(lead: tuple[int, ...], m: int, n: int, k: int, launches: list[str]) -> None:
    for dtype in ("float64", "complex64"):
        A, B = (normal(np.random.default_rng(m), (*lead, m, columns), dtype) for columns in (n, k))
        for _ in range(3):
            launches.clear()
            found = linalg.lstsq(A, B, driver="qr", backend="emulated")
            assert [text.split(":")[0] for text in launches] == ["qr", "systems"], launches
        tolerance = 500 * float(np.finfo(dtype).eps)
        for at in np.ndindex(lead):
            x, squares, *_ = scipy.linalg.lstsq(A[at], B[at])
            assert np.allclose(found.x[at], x, atol=tolerance)
            if lead or m > n:
                assert np.allclose(found.residuals[at], squares if m > n else 0, atol=tolerance)
            assert np.asarray(found.rank)[at] == n and found.s is None
        assert np.asarray(found.rank).dtype == np.int32 and found.residuals.dtype == A.real.dtype


@needs_cpu
def test_squared_residuals_of_integers_are_exact(launches: list[str]) -> None:
    """A unit matrix above zeros: what is left are the entries of b below."""
    A, B = np.eye(12, 4)[None].repeat(3, 0), integers(np.random.default_rng(1), (3, 12, 5), "float64")
    for _ in range(2):
        found = linalg.lstsq(A, B, driver="qr", backend="emulated")
        assert np.array_equal(abs(found.x), abs(B[:, :4])) and np.array_equal(found.residuals, (B[:, 4:] ** 2).sum(1))
    by_values = linalg.lstsq(A, B, backend="emulated")
    assert np.allclose(by_values.residuals, found.residuals) and (by_values.rank == 4).all()


# ---- QR of wide matrices --------------------------------------------------------------------------------------------


@needs_cpu
@rotated(3)
@pytest.mark.parametrize("shape", [(10, 216), (3, 5, 140), (1, 131)])
def test_wide_qr_is_a_kernel_and_a_product(shape: tuple[int, ...], launches: list[str]) -> None:
    A = normal(np.random.default_rng(3), shape, "float64")
    for mode in ("r", "reduced", "complete"):
        linalg.qr(A, mode, backend="emulated")
        launches.clear()
        found = linalg.qr(A, mode, backend="emulated")
        assert [text.split(":")[0] for text in launches] == ["qr", "gemm"], launches
        Q, R = (None, found) if mode == "r" else found
        assert R.shape == A.shape and not np.tril(R, -1).any()
        if Q is not None:
            assert np.allclose(Q @ R, A, atol=1e-12) and np.allclose(adjoint(Q) @ Q, np.eye(shape[-2]), atol=1e-13)
        gram = adjoint(A) @ A
        assert np.allclose(adjoint(R) @ R, gram, atol=1e-11)
    h, tau = linalg.qr(A, "raw", backend="emulated")
    assert h.shape == (*shape[:-2], shape[-1], shape[-2]) and tau.shape == shape[:-1]
    assert np.allclose(np.triu(h.swapaxes(-1, -2)), R, atol=1e-12)
