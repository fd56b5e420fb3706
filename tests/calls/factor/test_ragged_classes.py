"""Ragged batches on GPUs: size classes, copies between batches and padded stacks, and one kernel per class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from gemm_cases import address
from kernel_cases import BACKENDS
from ragged_cases import exact_lu, guarded, host, numbers, outside, same

import mansard as ms
from mansard import linalg, testing
from mansard.backends import emulated
from mansard.operations import ragged_stacks
from mansard.operations.factor.grouped import factor_ragged
from mansard.operations.factor.task import Task
from mansard.operations.plans import PLANS
from mansard.operations.ragged_classes import bounds_of, divide
from mansard.operations.ragged_copy import NO_ONES, Block, Copies, pieces
from mansard.plan.problem import DTYPES

ORDERS = [3, 0, 1, 2, 4, 4, 3]  # one class of small kernels
SHAPES = [(3, 5), (5, 3), (1, 4), (4, 1), (6, 8), (8, 5), (0, 3), (3, 0), (2, 2)]
FIFTY = [1 + i % 29 for i in range(50)]


# ---- classes --------------------------------------------------------------------------------------------------


def sizes_of(orders: Any, right: int = 0) -> Any:
    return np.array([(n, n, right) for n in orders])


def test_bounds_of_classes() -> None:
    wanted = {0: 4, 1: 4, 4: 4, 5: 8, 8: 8, 9: 16, 17: 24, 33: 40, 64: 64, 65: 96, 129: 160}
    assert bounds_of(np.array(list(wanted))).tolist() == list(wanted.values())


def test_fifty_orders_are_five_classes() -> None:
    classes = divide(sizes_of(FIFTY, 1), 8)
    assert [one.bounds for one in classes] == [(n, n, 1) for n in (32, 24, 16, 8, 4)]
    assert sorted(np.concatenate([one.members for one in classes]).tolist()) == list(range(50))
    assert all(one.is_padded and "shapes share a kernel" in one.reason for one in classes)


def test_one_shape_and_few_large_shapes_are_not_padded() -> None:
    classes = divide(sizes_of([7, 3, 7, 3, 1]), 8)
    assert [(one.bounds, one.is_padded) for one in classes] == [((7, 7, 0), False), ((4, 4, 0), True)]
    assert classes[0].members.tolist() == [0, 2] and "one shape" in classes[0].reason
    many = divide(sizes_of([30, 31] * 2000), 8)
    assert [(one.bounds, one.is_padded) for one in many] == [((31, 31, 0), False), ((30, 30, 0), False)]
    assert "2 shapes with 15 MiB each" in many[0].reason
    assert len(divide(sizes_of([30, 31] * 200), 8)) == 1, "few matrices of each: one launch is better"


# ---- copies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_are_exact(dtype: str, gpu_backend: str) -> None:
    """Padded stacks with and without ones, transposes, more entries than a warp copies at a time, none at all."""
    xp, where, rng = testing.array_module(gpu_backend), BACKENDS[gpu_backend].backend(), np.random.default_rng(1)
    shapes = [(3, 5), (0, 2), (40, 39), (4, 4)]
    given = guarded(rng, [numbers(rng, shape, dtype) for shape in shapes], dtype, xp)
    rows, columns, offsets = given.layout.host()
    copies = Copies(given._kind, where, dtype)
    height, width = 41, 43
    starts = np.arange(4) * height * width + 1
    gathers = [copies.add(Block(offsets, starts, rows, columns, height, width, columns, 1, one))
               for one in (NO_ONES, 0, -1)]  # fmt: skip
    dense = np.cumsum(rows * columns) - rows * columns
    scatter = copies.add(Block(starts, dense, columns, rows, columns, rows, 1, width))
    table = copies.table(given.buffer, 0)
    matrices = [host(one) for one in given]
    for ones, gather in zip((NO_ONES, 0, -1), gathers, strict=True):
        stack = xp.full(4 * height * width + 2, np.nan, dtype)
        gather(address(given.buffer), address(stack), table, 0)
        where.synchronize()
        found = host(stack)
        assert np.isnan(found[0]) and np.isnan(found[-1])
        for one, padded in zip(matrices, found[1:-1].reshape(4, height, width), strict=True):
            m, n = one.shape
            i, j = np.indices((height, width))
            expected = ((i >= m) & (j >= n) & (i - j == ones)).astype(dtype)
            expected[:m, :n] = one
            assert np.array_equal(padded, expected)
    flat = xp.full(int((rows * columns).sum()) + 1, np.nan, dtype)
    scatter(address(stack), address(flat), table, 0)
    where.synchronize()
    assert np.array_equal(host(flat)[:-1], np.concatenate([one.T.reshape(-1) for one in matrices]))
    assert np.isnan(host(flat)[-1])


def test_tables_are_divided_into_pieces() -> None:
    table = pieces(Block(np.array([7, 9]), np.array([0, 1]), 1, 1, np.array([3, 50]), 50, 1, 1))
    halves = table.view(np.int32)
    assert halves[:, 10].tolist() == [0, 0, 1024, 2048] and halves[:, 11].tolist() == [150, 1024, 2048, 2500]
    assert table[:, 0].tolist() == [7, 9, 9, 9] and (halves[:, 9] == NO_ONES).all()


# ---- factorizations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_is_exact(dtype: str, gpu_backend: str) -> None:
    """Factors, pivots, solutions and determinants; nothing is read or written between the matrices."""
    xp, rng = testing.array_module(gpu_backend), np.random.default_rng(1)
    A, F, pivots = (list(column) for column in zip(*(exact_lu(rng, n, n, dtype) for n in ORDERS), strict=True))
    a, out = (guarded(rng, some, dtype, xp) for some in (A, [np.full_like(one, np.nan) for one in A]))
    found, piv, info = linalg.lu_factor_ex(a, out=out, backend=gpu_backend)
    assert found is out and same(found, F) and [host(one).tolist() for one in piv] == pivots and not host(info).any()
    assert np.isnan(outside(out)).all() and host(info).dtype == host(piv[0]).dtype == np.int32
    X = [numbers(rng, (n, k), dtype).round() for n, k in zip(ORDERS, [1, 2, 3, 4, 0, 1, 2], strict=True)]
    b = guarded(rng, [(one @ x).astype(dtype) for one, x in zip(A, X, strict=True)], dtype, xp)
    x, info = linalg.solve_ex(a, b, backend=gpu_backend)
    assert same(x, X) and not host(info).any()
    if dtype == "float64":
        assert same(linalg.lu_solve((found, piv), b, backend=gpu_backend), X)
    signs = [(-1.0) ** sum(i != p for i, p in enumerate(one)) for one in pivots]
    expected = np.array([sign * np.prod(np.diag(one)) for sign, one in zip(signs, F, strict=True)], dtype)
    assert np.array_equal(host(linalg.det(a, backend=gpu_backend)), expected)
    assert linalg.lu_factor_ex(a, out=a, backend=gpu_backend)[0] is a and same(a, F)


def test_rectangular_factors_are_exact(gpu_backend: str) -> None:
    xp, rng = testing.array_module(gpu_backend), np.random.default_rng(2)
    made = [exact_lu(rng, m, n, "float64") for m, n in SHAPES]
    found, piv, info = linalg.lu_factor_ex(guarded(rng, [one[0] for one in made], "float64", xp), backend=gpu_backend)
    assert same(found, [F for _, F, _ in made]) and [host(one).tolist() for one in piv] == [p for _, _, p in made]
    assert not host(info).any()


def test_zeros_ties_and_nan_stay_in_their_matrix(gpu_backend: str) -> None:
    """Rows of the padding are never pivots; `info` names the first zero pivot; other matrices are right."""
    xp, rng = testing.array_module(gpu_backend), np.random.default_rng(3)
    A = [numbers(rng, (n, n), "float64") for n in (5, 6, 7, 8, 5, 3)]
    A[0][:, 2], A[1][...], A[2][3:, 3], A[4] = 0, 0, np.nan, np.sign(A[4])
    a = guarded(rng, A, "float64", xp)
    F, piv, info = linalg.lu_factor_ex(a, backend=gpu_backend)
    expected = [scipy.linalg.lu_factor(one, check_finite=False) for one in A]
    for i, (one, found, pivots) in enumerate(zip(A, F, piv, strict=True)):
        wanted = host(pivots)
        assert (wanted >= np.arange(len(one))).all() and (wanted < len(one)).all()
        if i != 2:
            assert np.array_equal(wanted, expected[i][1]) and np.allclose(host(found), expected[i][0], atol=1e-13)
    assert host(info).tolist() == [3, 1, 0, 0, *(_info(expected[i][0]) for i in (4, 5))]
    X, info = linalg.inv_ex(a, backend=gpu_backend)
    assert host(info).tolist()[:4] == [3, 1, 0, 0] and np.isnan(host(X[2])).any()
    assert all(np.allclose(host(X[i]) @ A[i], np.eye(len(A[i]))) for i in (3, 5))
    with pytest.raises(np.linalg.LinAlgError, match=r"^a\[0\] is singular: pivot 2 of its elimination is zero"):
        linalg.inv(a, backend=gpu_backend)


def _info(F: Any) -> int:
    return next((k + 1 for k, one in enumerate(np.diag(F)) if one == 0), 0)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_qr_keeps_to_the_bound(dtype: str, gpu_backend: str) -> None:
    """Tall, wide and empty matrices, a column of zeros, every mode; reflectors are LAPACK's."""
    xp, rng = testing.array_module(gpu_backend), np.random.default_rng(4)
    shapes = [(4, 4), (3, 2), (2, 4), (1, 3), (4, 1), (3, 0), (0, 2)] + (SHAPES if dtype == "float64" else [])
    A = [numbers(rng, shape, dtype) for shape in shapes]
    A[0][:, 1] = 0
    a, near = guarded(rng, A, dtype, xp), 100 * np.finfo(dtype).eps
    for mode in ("reduced", "complete") if dtype == "float64" else ("complete",):
        Q, R = linalg.qr(a, mode, backend=gpu_backend)
        for one, q, r in zip(A, map(host, Q), map(host, R), strict=True):
            wanted = np.linalg.qr(one, mode)
            assert (q.shape, r.shape) == (wanted[0].shape, wanted[1].shape) and np.array_equal(r, np.triu(r))
            assert abs(q @ r - one).max(initial=0) <= near * abs(one).max(initial=0)
            assert abs(q.conj().T @ q - np.eye(q.shape[1])).max(initial=0) <= near
    h, tau = linalg.qr(a, "raw", backend=gpu_backend)
    for one, found, factor in list(zip(A, map(host, h), map(host, tau), strict=True))[1:]:
        wanted = np.linalg.qr(one, "raw")
        assert found.shape == wanted[0].shape and np.allclose(found, wanted[0], atol=near)
        assert factor.dtype == np.dtype(dtype) and np.allclose(factor, wanted[1], atol=near)


def test_solves_with_factors(gpu_backend: str) -> None:
    """Pivots of any integer type, transposes, results in place of the right-hand sides."""
    xp, rng = testing.array_module(gpu_backend), np.random.default_rng(5)
    A = [numbers(rng, (n, n), "float64") + 3 * np.eye(n) for n in ORDERS]
    B = [numbers(rng, (n, 1 + n % 2), "float64") for n in ORDERS]
    a, b = (guarded(rng, some, "float64", xp) for some in (A, B))
    lu, piv = linalg.lu_factor(a, backend=gpu_backend)
    long = [one.astype("int64") for one in piv]
    for trans, turned in ((0, [*A]), (1, [one.T for one in A])):
        x = linalg.lu_solve((lu, long), b, trans, backend=gpu_backend)
        assert all(np.allclose(M @ host(y), z) for M, y, z in zip(turned, x, B, strict=True))
    S = [one @ one.T for one in A]
    L = linalg.cholesky(guarded(rng, S, "float64", xp), backend=gpu_backend)
    assert linalg.cho_solve((L, True), b, out=b, backend=gpu_backend) is b and np.isnan(outside(b)).all()
    assert all(np.allclose(M @ host(y), z) for M, y, z in zip(S, b, B, strict=True))
    with pytest.raises(ValueError, match=r"piv\[0\] has shape \(2,\), and lu\[0\] \(3, 3\)"):
        linalg.lu_solve((lu, [piv[3], *piv[1:]]), b, backend=gpu_backend)
    with pytest.raises(np.linalg.LinAlgError, match=r"lu\[0\] has shape \(3, 2\)"):
        linalg.lu_solve((ms.Ragged.empty([3], [2], like=a.buffer), [piv[0]]), b[:1], backend=gpu_backend)


def test_least_squares(gpu_backend: str) -> None:
    """Tall, square and wide matrices of full rank: padding keeps the rank, the solutions and the residuals."""
    xp, rng = testing.array_module(gpu_backend), np.random.default_rng(8)
    shapes = [(3, 2), (4, 2), (2, 2), (3, 3), (2, 4), (3, 4), (4, 1)]
    A, B = ([numbers(rng, shape, "float64") for shape in some] for some in (shapes, [(m, 1) for m, _ in shapes]))
    a, b = (guarded(rng, some, "float64", xp) for some in (A, B))
    x, residuals, ranks, s = linalg.lstsq(a, b, driver="qr", backend=gpu_backend)
    assert s is None and host(ranks).tolist() == [min(shape) for shape in shapes] and host(ranks).dtype == np.int32
    for one, right, found, rest in zip(A, B, x, residuals, strict=True):
        assert np.allclose(host(found), np.linalg.lstsq(one, right, rcond=None)[0])
        assert np.allclose(host(rest), ((right - one @ host(found)) ** 2).sum(0))
    with pytest.raises(np.linalg.LinAlgError, match="rows and b"):
        linalg.lstsq(a[:1], b[2:3], driver="qr", backend=gpu_backend)


def test_results_go_where_they_overlap_what_is_read(gpu_backend: str) -> None:
    xp = testing.array_module(gpu_backend)
    a = ms.Ragged(xp.zeros(40), [2, 3], [2, 3], [0, 4])
    for one in a:
        one[...] = xp.eye(len(one)) * 4
    shifted = ms.Ragged(a.buffer, [2, 3], [2, 3], [2, 6])
    found, info = linalg.inv_ex(a, out=shifted, backend=gpu_backend)
    assert found is shifted and same(found, [np.eye(2) / 4, np.eye(3) / 4]) and not host(info).any()


def test_large_batches_go_by_chunks(gpu_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padded stacks of no more than so many bytes at a time: the same results in the same order."""
    monkeypatch.setattr(ragged_stacks, "_MOST", 300)  # two matrices of order 4
    xp, rng = testing.array_module(gpu_backend), np.random.default_rng(6)
    A, F, pivots = (list(column) for column in zip(*(exact_lu(rng, n, n, "float64") for n in ORDERS * 2), strict=True))
    A[5][:, 1] = 0
    found, piv, info = linalg.lu_factor_ex(guarded(rng, A, "float64", xp), backend=gpu_backend)
    assert host(info).tolist() == [2 if i == 5 else 0 for i in range(14)]
    others = [i for i in range(14) if i != 5]
    assert same([found[i] for i in others], [F[i] for i in others])
    assert [host(piv[i]).tolist() for i in others] == [pivots[i] for i in others]


def test_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    made = [exact_lu(rng, n, n, "float64") for n in ORDERS]
    backend = "cuda" if torch.cuda.is_available() else "emulated"
    a = ms.Ragged.from_list([torch.from_numpy(one).to("cuda" if backend == "cuda" else "cpu") for one, _, _ in made])
    F, piv, info = linalg.lu_factor_ex(a, backend=backend)
    assert same(F, [one for _, one, _ in made]) and [one.tolist() for one in piv] == [one for _, _, one in made]
    assert info.dtype == piv[0].dtype == torch.int32 and not info.any()
    b = ms.Ragged.from_list([torch.ones((n, 1), dtype=a.dtype, device=a.buffer.device) for n in ORDERS])
    x = linalg.lu_solve((F, piv), b, backend=backend)
    assert all(np.allclose(one @ host(y), 1) for (one, _, _), y in zip(made, x, strict=True))


# ---- kernels per class ----------------------------------------------------------------------------------------


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Texts of the emulator's kernels that calls prepare; none is compiled, and none runs."""
    texts: list[str] = []

    def counted(backend: Any, kernel: Any) -> Any:
        texts.append(kernel.source.text)
        return lambda pointers, scalars, stream: None

    monkeypatch.setattr(emulated.EmulatedBackend, "prepare", counted)
    PLANS.forget()
    yield texts
    PLANS.forget()


def test_fifty_orders_take_a_kernel_per_class(prepared: list[str]) -> None:
    a, b = ms.Ragged.zeros(FIFTY, FIFTY), ms.Ragged.zeros(FIFTY, [1] * 50)
    calls = {
        "lu_factor": lambda: linalg.lu_factor_ex(a, backend="emulated"),
        "solve": lambda: linalg.solve_ex(a, b, backend="emulated"),
        "pos": lambda: linalg.solve_ex(a, b, assume_a="pos", backend="emulated"),
        "inv": lambda: linalg.inv_ex(a, backend="emulated"),
        "det": lambda: linalg.det(a, backend="emulated"),
        "slogdet": lambda: linalg.slogdet(a, backend="emulated"),
        "reduced": lambda: linalg.qr(a, backend="emulated"),
        "r": lambda: linalg.qr(a, "r", backend="emulated"),
        "cholesky": lambda: linalg.cholesky_ex(a, backend="emulated"),
        "trsm": lambda: ms.blas.trsm(a, b, backend="emulated"),
    }
    for name, call in calls.items():
        before = set(prepared)
        call()
        count = len(prepared)
        call()
        assert len(prepared) == count, f"{name}: the second call prepares nothing"
        new = set(prepared) - before
        assert len([one for one in new if "ragged_factor_copy" not in one]) <= 5, name
    assert sum("ragged_factor_copy" in one for one in set(prepared)) == 1, "one copy kernel for all of them"


def test_one_shape_is_read_where_it_is(prepared: list[str]) -> None:
    """A class of one shape needs no copies, where kernels take addresses of matrices."""
    a = ms.Ragged.zeros([5] * 20, [5] * 20)
    linalg.lu_factor_ex(a, backend="emulated")
    assert len(prepared) == 1 and "ragged_factor_copy" not in prepared[0]
    PLANS.forget()
    linalg.lu_factor_ex(a, backend="emulated")
    assert len(prepared) == 2, "it is chosen anew after tuning"
    assert factor_ragged(Task("lu", "inverse"), "emulated", ms.Ragged.empty([], []), None) is None


@pytest.mark.usefixtures("prepared")
def test_plans_explain_the_classes() -> None:
    a, b = ms.Ragged.zeros([*FIFTY, 7], [*FIFTY, 7]), ms.Ragged.zeros([*FIFTY, 7], [1] * 51)
    for name, operands in (("lu_factor", (a,)), ("solve", (a, b)), ("inv", (a,)), ("qr", (a,)), ("slogdet", (a,))):
        text = ms.plan(name, *operands, backend="emulated").explain()
        assert text.count("  runs     VARIANT=") == 5 and "9 matrices padded to 8 x 8" in text, name
    assert "4 shapes share a kernel" in text
    text = ms.plan("cholesky", a, backend="emulated").explain()
    assert "17 matrices of 8 x 8: the kernel reads the order of every matrix up to this size" in text
    text = ms.plan("inv", a[6:7], backend="emulated").explain()
    assert "1 matrices of 7 x 7: all matrices of the class have one shape" in text


def test_plans_of_ragged_batches_run(gpu_backend: str) -> None:
    xp = testing.array_module(gpu_backend)
    a = ms.Ragged.from_list([xp.eye(3) * 2, xp.eye(2) * 4])
    plan = ms.plan("lu_factor", a, backend=gpu_backend)
    F, piv, info = plan(a)
    assert same(F, [np.eye(3) * 2, np.eye(2) * 4]) and host(piv[1]).tolist() == [0, 1] and host(info).tolist() == [0, 0]
    with pytest.raises(ValueError, match="A is not like the batch that was planned for"):
        plan(a[:1])
