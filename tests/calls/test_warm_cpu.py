"""Warm calls on CPUs: what they answer, how few Python functions they enter, how many threads their kernels have."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from conftest import usable

import mansard as ms
from mansard.backends import cpu
from mansard.codegen.geometry import Device
from mansard.errors import RankDeficient
from mansard.kernels.common import team
from mansard.machine.roofline import Work
from mansard.operations.launcher import LAUNCHER
from mansard.plan.route import Library

RNG = np.random.default_rng(11)
DTYPES = ("float32", "float64", "complex64", "complex128")


@pytest.fixture(autouse=True)
def on_cpus(no_plans: None) -> None:
    usable("cpu")


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    made = RNG.standard_normal(shape).astype(dtype)
    return made + (1j * RNG.standard_normal(shape)).astype(dtype) if dtype.startswith("complex") else made


def assert_equal_bits(one: Any, other: Any) -> None:
    assert one.dtype == other.dtype and np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()


def functions_of(call: Callable[[], Any]) -> int:
    """Python functions that a warm call enters."""
    LAUNCHER.wait()
    for _ in range(3):
        call()
    entered = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal entered
        entered += event == "call"

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered - 1  # the call itself


# ---- systems with known factors ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize(("count", "rows", "columns"), [(1, 7, 2), (3, 5, 4), (40, 6, 1)])
def test_known_factors_are_solved_with_alike_from_the_first_call_on(
    count: int, rows: int, columns: int, dtype: str
) -> None:
    A = numbers((count, rows, rows), dtype) + rows * np.eye(rows, dtype=dtype)
    S = A @ A.conj().swapaxes(-1, -2)
    B = numbers((count, rows, columns), dtype)
    lu, piv = ms.linalg.lu_factor(A[:, ::-1].copy())
    C = ms.linalg.cholesky(S)
    for solve in (
        lambda **given: ms.linalg.lu_solve((lu, piv), B, **given),
        lambda **given: ms.linalg.cho_solve((C, True), B, **given),
    ):
        first = solve()
        place = np.full_like(B, np.nan)
        for _ in range(2):
            assert_equal_bits(solve(), first)
            assert solve(out=place) is place
            assert_equal_bits(place, first)
    tolerance = 1e3 * rows * np.finfo(dtype).eps
    assert np.abs(A[:, ::-1] @ ms.linalg.lu_solve((lu, piv), B) - B).max() < tolerance
    assert np.abs(S @ ms.linalg.cho_solve((C, True), B) - B).max() < tolerance * rows


def test_factors_meet_right_hand_sides_in_their_own_place_and_of_other_layouts() -> None:
    A, B = numbers((3, 5, 5), "float64") + 5 * np.eye(5), numbers((3, 5, 4), "float64")
    lu, piv = ms.linalg.lu_factor(A)
    wanted = ms.linalg.lu_solve((lu, piv), B)
    for place in (B.copy(), np.asfortranarray(B), np.repeat(B, 2, -1)[..., ::2]):
        for _ in range(2):
            place[...] = B
            ms.linalg.lu_solve((lu, piv), place, out=place)
            assert np.allclose(place, wanted, rtol=1e-12)
    assert np.allclose(A.swapaxes(-1, -2) @ ms.linalg.lu_solve((lu, piv), B, trans=1), B)
    for _ in range(2):  # broadcast factors, and pivots of another dtype
        assert np.allclose(ms.linalg.lu_solve((lu[0], piv[0].astype(np.int64)), B)[0], wanted[0])
        with pytest.raises(ValueError, match="lu has 5 rows and b 4"):
            ms.linalg.lu_solve((lu, piv), B[:, :4])
        with pytest.raises(TypeError, match="integers are needed"):
            ms.linalg.lu_solve((lu, piv.astype(float)), B)


# ---- orthonormal bases ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (9, 9), (300, 1), (400, 5), (358, 20)])
def test_short_blocks_are_reflected(rows: int, columns: int, dtype: str) -> None:
    """By LAPACK, in the block's own precision, and into any place."""
    V, eps = numbers((rows, columns), dtype), np.finfo(dtype).eps
    plan = ms.plan("cholesky_qr", V)
    assert isinstance(plan.choice.route, Library) and "Householder QR" in plan.explain()
    place = np.full((columns, rows), np.nan, dtype).T
    for _ in range(2):
        Q, R = ms.cholesky_qr(V)
        assert Q.dtype == R.dtype == V.dtype and Q.flags.c_contiguous
        assert np.abs(Q.conj().T @ Q - np.eye(columns)).max() < 20 * columns * eps
        assert np.abs(V - Q @ R).max() < 20 * columns * eps * np.abs(V).max()
        assert not np.tril(R, -1).any() and (R.diagonal().real > 0).all() and not R.diagonal().imag.any()
        again, same = ms.cholesky_qr(V, out=place)
        assert again is place and (place == Q).all() and (same == R).all()
        assert not ms.cholesky_qr(V, on_deficient="flag")[2].any()


def test_long_and_named_blocks_go_the_steps() -> None:
    long = numbers((60_000, 8), "float64")
    for given in (ms.plan("cholesky_qr", long), ms.plan("cholesky_qr", long[:300], shift="always")):
        assert "step 1 of" in given.explain() and "Householder" not in given.explain()
    for options in ({"shift": "always"}, {"shift": "never"}, {"backend": "cpu"}):
        for _ in range(2):
            Q, R = ms.cholesky_qr(long[:300], **options)
            assert np.abs(Q.T @ Q - np.eye(8)).max() < 1e-13 and np.abs(Q @ R - long[:300]).max() < 1e-13


def test_what_reflections_do_not_settle_is_left_to_the_steps() -> None:
    """Dependent columns, numbers that are none, and a result in the block's memory."""
    V = numbers((200, 3), "float64")
    ms.cholesky_qr(V)
    dependent, spoilt, tiny = V.copy(), V.copy(), V * 1e-150
    dependent[:, 2] = dependent[:, 0] - dependent[:, 1]
    spoilt[7, 1] = np.nan
    for _ in range(2):
        with pytest.raises(RankDeficient) as caught:
            ms.cholesky_qr(dependent)
        assert caught.value.column == 2
        assert ms.cholesky_qr(dependent, on_deficient="flag")[2].tolist() == [False, False, True]
        with pytest.raises(ValueError, match="column 1 of V has entries that are not finite"):
            ms.cholesky_qr(spoilt)
        with pytest.raises(ValueError, match="underflows"):
            ms.cholesky_qr(tiny)
    both = np.zeros((300, 3))
    for first, block in ((50, both[:200]), (100, both[:200]), (0, both[50:250])):
        both[...] = numbers((300, 3), "float64")
        ms.cholesky_qr(block.copy(), out=np.empty((200, 3)))  # an earlier call on arrays like these
        with pytest.raises(ValueError, match="out overlaps V"):
            ms.cholesky_qr(block, out=both[first : first + 200])
    place = V.copy()
    for _ in range(2):
        place[...] = V
        assert ms.cholesky_qr(place, out=place)[0] is place and np.allclose(place, ms.cholesky_qr(V)[0], atol=1e-14)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("rows", [100, 5000])
def test_products_with_gram_matrices_are_alike_from_the_first_call_on(rows: int, dtype: str) -> None:
    V, S = numbers((rows, 4), dtype), numbers((4, 4), dtype)
    base = np.linalg.qr(numbers((rows, 3), dtype))[0]
    for call in (lambda **given: ms.matmul_gram(V, S, **given), lambda **given: ms.project(base, V, **given)):
        first, gram = call()
        place = np.full_like(V, np.nan)
        for _ in range(2):
            W, G = call()
            assert_equal_bits(W, first)
            assert_equal_bits(G, gram)
            assert call(out=place)[0] is place
            assert np.allclose(place, first, atol=1e-5)
    both = np.zeros((rows + 3, 4), dtype)
    for _ in range(2):
        both[:rows] = V
        with pytest.raises(ValueError, match="out overlaps V"):
            ms.matmul_gram(both[:rows], S, out=both[3:])
        with pytest.raises(ValueError, match="out overlaps W"):
            ms.project(base, both[:rows], out=both[3:])


# ---- results in given places ------------------------------------------------------------------------------


def test_libraries_write_into_given_places() -> None:
    A, B, out = numbers((2, 3, 4), "float64"), numbers((2, 4, 3), "float64"), np.zeros((2, 3, 3))
    L, Y = np.tril(numbers((1, 4, 4), "float64")) + 4 * np.eye(4), numbers((1, 4, 4), "float64")
    memory = np.zeros(80)
    for _ in range(3):
        assert ms.matmul(A, B, out=out) is out and np.allclose(out, A @ B)
        X = np.full_like(Y, np.nan)
        assert ms.blas.trsm(L, Y, out=X) is X and np.allclose(L @ X, Y)
        X[...] = Y
        assert ms.blas.trsm(L, X, out=X) is X and np.allclose(L @ X, Y)
        near = memory[:24].reshape(2, 3, 4)
        with pytest.raises(ValueError, match="out overlaps A"):
            ms.matmul(near, B, out=memory[10:28].reshape(2, 3, 3))
        with pytest.raises(ValueError, match="out overlaps b"):
            ms.blas.trsm(L, memory[:16].reshape(1, 4, 4), out=memory[4:20].reshape(1, 4, 4))


def test_matrices_that_are_copied_take_the_short_path() -> None:
    A = (numbers((6, 9, 18), "complex128") + 9 * np.eye(9, 18, dtype=complex)[None].repeat(6, 0))[..., ::2]
    A = A + 9 * np.eye(9)
    spread = np.repeat(A, 2, -1)[..., ::2]
    b = numbers((6, 9, 2), "complex128")
    wanted = np.linalg.solve(A, b)
    for _ in range(3):
        assert np.allclose(ms.linalg.solve(spread, b), wanted)
        assert np.allclose(ms.linalg.solve(spread, b, out=np.empty_like(b)), wanted)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("shape", [(2, 90, 60), (60, 90)])
def test_single_precision_is_factored_in_its_own(dtype: str, shape: tuple[int, ...]) -> None:
    A, eps = numbers(shape, dtype), np.finfo(dtype).eps
    Q, R = ms.linalg.qr(A)
    assert Q.dtype == R.dtype == A.dtype and not np.tril(R, -1).any()
    assert np.abs(Q @ R - A).max() < 200 * eps and np.abs(Q.conj().swapaxes(-1, -2) @ Q - np.eye(60)).max() < 200 * eps
    assert np.allclose(np.abs(ms.linalg.qr(A, mode="r")), np.abs(R), atol=1e-3)


# ---- how much a warm call is ------------------------------------------------------------------------------


def small_calls() -> dict[str, tuple[Callable[[], Any], int]]:
    """Calls on small operands, each with the most Python functions that it may enter."""
    A = numbers((30, 4, 4), "float64") + 4 * np.eye(4)
    lu, piv = ms.linalg.lu_factor(A)
    C = ms.linalg.cholesky(A @ A.swapaxes(-1, -2))
    B, V, S = numbers((30, 4, 1), "float64"), numbers((3000, 3), "float64"), numbers((3, 3), "float64")
    W, single = np.linalg.qr(numbers((3000, 2), "float64"))[0], numbers((1, 4, 4), "float64") + 4 * np.eye(4)
    sparse = ms.sparse.matrix(scipy.sparse.random(300, 300, 0.05, "csr", random_state=3))
    x, out, place = numbers((300,), "float64"), np.empty((2, 3, 3)), np.empty((1, 4, 4))
    return {
        "lu_solve": (lambda: ms.linalg.lu_solve((lu, piv), B), 40),
        "cho_solve": (lambda: ms.linalg.cho_solve((C, True), B), 30),
        "cholesky_qr": (lambda: ms.cholesky_qr(V), 40),
        "matmul_gram": (lambda: ms.matmul_gram(V, S), 25),
        "project": (lambda: ms.project(W, V), 60),
        "matvec": (lambda: sparse @ x, 20),
        "matmul": (lambda: ms.matmul(A[:2, :3], A[:2, :, :3], out=out), 12),
        "trsm": (lambda: ms.blas.trsm(single, single, out=place), 16),
    }


def test_warm_calls_enter_few_functions() -> None:
    entered = {name: (functions_of(call), most) for name, (call, most) in small_calls().items()}
    assert all(found <= most for found, most in entered.values()), entered


# ---- threads ----------------------------------------------------------------------------------------------


def test_a_team_is_as_large_as_its_work() -> None:
    many = Device("cpu", "a CPU", "x86_64", multiprocessors=16, vector_bytes=64, l2_bytes=1 << 20)
    each = int(team.WORTH * 10e9)  # bytes
    for threads in (1, 2, 3, 16):
        assert team.size(Work(threads * each + 8, 0, 0, "float64"), many) == threads
    assert team.size(Work(0, 0, 0, "float64"), many) == 1
    assert team.size(Work(1 << 40, 0, 0, "float64"), many) == 16
    assert "at most 1 of 16: each has at least 50 us of work" in team.remark(Work(8, 8, 2, "float64"), many)
    assert "at most 16 of 16: as many as there are" in team.remark(Work(1 << 40, 0, 0, "float64"), many)


def test_small_products_and_powers_have_one_thread() -> None:
    A = scipy.sparse.random(1500, 1500, 0.01, "csr", random_state=3)
    x = np.ones(1500)
    plan = ms.sparse.matrix(A).plan(x)
    assert plan.kernel is not None and plan.kernel.fixed[-1] == 1
    assert f"threads  at most 1 of {cpu.backend().device.multiprocessors}" in plan.explain()
    powers = ms.matrix_powers(A, 3, execution="groups")
    assert powers._runner.launch._kernel.fixed[-1] == 1  # type: ignore[union-attr]
    asked = ms.matrix_powers(A, 3, execution="groups", threads=2)
    assert asked._runner.launch._kernel.fixed[-1] == 2  # type: ignore[union-attr]
    assert np.array_equal(powers(x), asked(x))


# ---- vectors of two numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize(("first", "second"), [("F", "C"), ("F", "F")])
def test_narrow_products_are_exact(first: str, second: str, columns: int, dtype: str) -> None:
    """Single columns beside columns, and products of vectors of two floats: small integers are exact in any order."""

    def integers(shape: tuple[int, int]) -> Any:
        made = RNG.integers(-3, 4, shape).astype(dtype)
        return made + (1j * RNG.integers(-3, 4, shape)).astype(dtype) if dtype.startswith("complex") else made

    A, B = np.asarray(integers((2100, 7)), order=first), np.asarray(integers((2100, columns)), order=second)
    assert np.array_equal(ms.gram(A, B, backend="cpu"), A.conj().T @ B)
    assert np.array_equal(ms.gram(B, A, backend="cpu"), B.conj().T @ A)
    sparse = scipy.sparse.random(90, 90, 0.1, "csr", random_state=1)
    sparse.data = np.round(sparse.data * 6 - 3)
    x = integers((90, columns))
    assert np.array_equal(ms.sparse.matrix(sparse.astype(dtype)) @ x, sparse.astype(dtype) @ x)


@pytest.mark.parametrize("count", [2, 40])
def test_pivots_that_are_no_rows_are_refused(count: int) -> None:
    A, B = numbers((count, 5, 5), "float64"), numbers((count, 5, 2), "float64")
    lu, piv = ms.linalg.lu_factor(A)
    wanted = ms.linalg.lu_solve((lu, piv), B)
    spread = np.repeat(piv, 2, -1)[..., ::2]
    for wrong in (5, 1 << 20):
        for _ in range(2):
            bad = piv.copy()
            bad[-1, 1] = wrong
            with pytest.raises((ValueError, IndexError)):
                ms.linalg.lu_solve((lu, bad), B)
            assert np.array_equal(ms.linalg.lu_solve((lu, piv), B), wanted)
            assert np.allclose(ms.linalg.lu_solve((lu, spread), B), wanted)


def test_pivots_are_applied_by_scipys_rules() -> None:
    """Exchanges by the kernel, by numbers of Python and by arrays: few and many matrices."""
    for count in (1, 3, 30):
        A, B = numbers((count, 6, 6), "float64"), numbers((count, 6, 2), "float64")
        lu, piv = ms.linalg.lu_factor(A)
        wanted = np.stack([scipy.linalg.lu_solve((lu[i], piv[i]), B[i]) for i in range(count)])
        for _ in range(2):
            assert np.allclose(ms.linalg.lu_solve((lu, piv), B), wanted, rtol=1e-6)
