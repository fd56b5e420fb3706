"""Ragged batches of factorizations: one launch per class of sizes, groups of one size, and `info` in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from cholesky_cases import P, factor_error, factors, on_host
from devices import H200
from gemm_cases import address
from kernel_cases import BACKENDS
from sparing import on_backends

import mansard as ms
from mansard import linalg, testing
from mansard.kernels.factor.cholesky import defaults, emit, space, spec
from mansard.kernels.factor.cholesky.space import Block, Config, Lanes, Tile
from mansard.operations.factor import sorted as factor_sorted
from mansard.operations.factor.grouped import factor_ragged
from mansard.operations.factor.sorted import bounds
from mansard.operations.factor.task import Task
from mansard.plan.problem import DTYPES

CLASSES: list[tuple[str, str, int, Config]] = [
    ("float64", "lower", 8, Tile(8, 2, DIRECT=True)),
    ("float64", "lower", 16, Tile(8, 1, DIRECT=True, WARPS=2)),
    ("float64", "upper", 24, Tile(8, 2, DIRECT=True)),
    ("float64", "lower", 40, Tile(8, 4, DIRECT=True)),
    ("float64", "upper", 64, Tile(8, 4, DIRECT=True)),
    ("float32", "lower", 24, Tile(8, 2, DIRECT=True)),
    ("float32", "upper", 16, Tile(16, 2, DIRECT=True)),
    ("complex64", "lower", 16, Tile(8, 2, DIRECT=True)),
    ("complex128", "upper", 16, Tile(8, 2, DIRECT=True)),
    ("complex128", "lower", 16, Tile(4, 4, DIRECT=True)),
    ("float64", "lower", 48, Block(2)),
    ("float64", "upper", 96, Block(2)),
    ("complex64", "lower", 64, Block(1)),
]
CLASS = pytest.mark.parametrize("case", CLASSES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}-{case[3].VARIANT}")


def batch(xp: Any, dtype: str, sizes: Any, upper: bool, seed: int, gap: int = 0) -> tuple[ms.Ragged, list[Any]]:
    """Products of integer factors, of which one triangle is there, and these factors; NaN between the matrices."""
    expected = [factors(P(dtype, max(1, int(n)), 1), np, seed + i)[0, :n, :n] for i, n in enumerate(sizes)]
    starts = np.cumsum([0, *(int(n) ** 2 + gap for n in sizes)])
    buffer = np.full(max(1, int(starts[-1])), np.nan, dtype)
    for L, start, n in zip(expected, starts, sizes, strict=False):
        A = L @ L.conj().T
        mask = np.tri(n, dtype=bool)
        buffer[start : start + n * n] = np.where(mask.T if upper else mask, A, np.nan).astype(dtype).reshape(-1)
    made = ms.Ragged(xp.asarray(buffer), np.array(sizes), np.array(sizes), starts[:-1])
    return made, [L.conj().T if upper else L for L in expected]


def same(found: Any, expected: list[Any]) -> bool:
    return all(np.array_equal(on_host(one, L.dtype), L) for one, L in zip(found, expected, strict=True))


def launch(case: tuple[str, str, int, Config], backend: str, sizes: list[int], in_place: bool = False) -> None:
    """One class: matrices in any order, `info` where the table says; nothing is written between them."""
    dtype, uplo, N, config = case
    xp, where = testing.array_module(backend), BACKENDS[backend].backend()
    problem = spec.problem(dtype, N, len(sizes), uplo=uplo, stack_a="ragged", aligned=False)
    if dtype == "complex128":
        problem = problem.replace(aligned=True)  # elements are pieces of 16 bytes themselves
    assert space.illegal(problem, config, where.device) is None
    given, expected = batch(xp, dtype, sizes, uplo == "upper", 7, gap=1)
    starts = given.layout.host()[2]
    out = given.buffer if in_place else xp.full(len(given.buffer), np.nan, dtype)
    info = xp.full(len(sizes), -7, np.int32)
    index = np.random.default_rng(3).permutation(len(sizes))
    items = xp.asarray(np.stack([np.array(sizes)[index], index, starts[index], starts[index]], 1))
    kernel = emit.kernel(problem, config, where.device, (0,) * 12)
    at = (address(given.buffer), address(out), 0, 0, address(info), address(items))
    where.prepare(kernel)(at, (), 0)
    where.synchronize()
    found = ms.Ragged(out, np.array(sizes), np.array(sizes), starts)
    assert same(found, expected) and not bool(info.any())
    for matrix in found:
        matrix[...] = np.nan
    assert bool(xp.isnan(out).all()), "written between the matrices"


@CLASS
def test_a_class_is_exact(case: tuple[str, str, int, Config], gpu_backend: str) -> None:
    """Every order of it, teams of one warp that differ, tails; in place, too."""
    N, config = case[2], case[3]
    least = N - config.LANES_M + 1 if isinstance(config, Tile) else N // 3
    sizes = np.random.default_rng(1).integers(least, N + 1, 7).tolist()
    launch(case, gpu_backend, [N, least, *sizes])
    launch(case, gpu_backend, sizes[:1], in_place=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_all_classes_at_once(dtype: str, upper: bool, gpu_backend: str) -> None:
    xp, rng = testing.array_module(gpu_backend), np.random.default_rng(2)
    sizes = [0, *rng.integers(1, 40, 30).tolist(), 0, *(() if dtype == "complex128" else (64, 71)), 1]
    a, expected = batch(xp, dtype, sizes, upper, 11)
    found = factor_sorted.factor_sorted(Task("cholesky", upper=upper), gpu_backend, a, None)
    assert found is not None
    F, info = found
    assert same(F, expected) and info.dtype == np.int32 and not bool(info.any()) and len(info) == len(sizes)
    again = factor_sorted.factor_sorted(Task("cholesky", upper=upper), gpu_backend, a, a)
    assert again is not None and again[0] is a and same(a, expected)


def test_random_matrices_are_within_bounds(gpu_backend: str) -> None:
    """Even orders, whose pieces are pairs, and odd ones."""
    xp, rng = testing.array_module(gpu_backend), np.random.default_rng(4)
    matrices = []
    for n in (2, 7, 18, 33, 34, 50, 57, 70):
        G = rng.standard_normal((n, n))
        matrices.append(G @ G.T / n + np.eye(n) / 4)
    a = ms.Ragged.from_list([xp.asarray(one) for one in matrices])
    found = factor_sorted.factor_sorted(Task("cholesky"), gpu_backend, a, None)
    assert found is not None and not bool(found[1].any())
    for A, L in zip(matrices, found[0], strict=True):
        assert factor_error(P("float64", len(A), 1), A[None], L[None]) <= 1


def test_bad_matrices_say_so_and_spoil_only_themselves(gpu_backend: str) -> None:
    xp = testing.array_module(gpu_backend)
    sizes = [5, 9, 13, 9, 30, 12, 8, 66]
    a, expected = batch(xp, "float64", sizes, False, 21)
    wrong = {1: 4, 4: 30, 5: 1, 7: 65}
    for i, order in wrong.items():
        a[i][order - 1, order - 1] = -1 if i != 5 else np.nan
    found = factor_sorted.factor_sorted(Task("cholesky"), gpu_backend, a, None)
    assert found is not None
    assert on_host(found[1], np.int32).tolist() == [wrong.get(i, 0) for i in range(len(sizes))]
    assert all(np.array_equal(on_host(found[0][i], float), expected[i]) for i in range(len(sizes)) if i not in wrong)


def test_who_has_no_kernel_here() -> None:
    """CPUs, what is too large, and matrices that are not square; then groups of one size answer."""
    task, square = Task("cholesky"), ms.Ragged.from_list([np.eye(3)])
    assert factor_sorted.factor_sorted(task, "cpu", square, None) is None
    assert factor_sorted.factor_sorted(task, "emulated", ms.Ragged.empty([2], [3]), None) is None
    assert factor_sorted.factor_sorted(task, "emulated", ms.Ragged.empty([300], [300]), None) is None
    assert factor_sorted.factor_sorted(Task("lu"), "emulated", square, None) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_class_has_a_default(dtype: str) -> None:
    """Its orders are those that its kernel takes; classes end where kernels do."""
    limits = bounds(dtype).tolist()
    assert limits == sorted(set(limits)) and limits[-1] == spec.WIDEST[P(dtype, 1, 1).itemsize]
    for low, high in zip([0, *limits], limits, strict=False):
        problem = spec.problem(dtype, high, 1000, stack_a="ragged")
        config = defaults.default(problem, H200)
        assert config is not None and space.illegal(problem, config, H200) is None, high
        assert isinstance(config, Block) or high - low <= config.LANES_M, high  # type: ignore[union-attr]


def test_what_ragged_batches_refuse() -> None:
    for problem in (
        spec.problem("float64", 8, 5, stack_a="ragged", stack_f="packed"),
        spec.problem("float64", 8, 5, stack_a="ragged", want="solve", NRHS=1),
        spec.problem("float64", 8, 5, stack_a="ragged", layout_a="col"),
    ):
        assert "ragged" in str(spec.refusal(problem))
    problem = spec.problem("float64", 16, 5, stack_a="ragged")
    for config in (Lanes(4), Tile(8, 2)):
        assert "ragged" in str(space.illegal(problem, config, H200))
    assert "filled" in str(space.illegal(spec.problem("float64", 15, 5, stack_a="ragged"), CLASSES[0][3], H200))


@pytest.mark.parametrize("backend, dtype", on_backends(DTYPES, 4), indirect=["backend"])
def test_a_launch_per_size(dtype: str, backend: str) -> None:
    """Solutions, factors with pivots and inverses, where kernels find all matrices by their addresses."""
    xp, rng = testing.array_module(backend), np.random.default_rng(8)
    sizes, columns = [5, 2, 5, 1, 5, 2, 1], [1, 2, 1, 3, 2, 2, 3]
    A = [(rng.standard_normal((n, n)) + n * np.eye(n)[::-1]).astype(dtype) for n in sizes]
    B = [rng.standard_normal((n, k)).astype(dtype) for n, k in zip(sizes, columns, strict=True)]
    S = [(one @ one.conj().T + np.eye(len(one))).astype(dtype) for one in A]
    a, s, b = (ms.Ragged.from_list([xp.asarray(one) for one in some]) for some in (A, S, B))
    near = 1e-10 if dtype in ("float64", "complex128") else 1e-3

    def close(found: Any, expected: Any) -> bool:
        return all(abs(on_host(x, "complex128") - y).max() <= near for x, y in zip(found, expected, strict=True))

    for _ in range(2):  # the second time with what the first one knows
        for family, matrices, where in (("lu", A, a), ("cholesky", S, s)):
            found = factor_ragged(Task(family, "solve"), backend, where, b, None)
            assert found is not None and close(found[0], map(np.linalg.solve, matrices, B)) and not bool(found[1].any())
        found = factor_ragged(Task("lu", "inverse"), backend, a, None)
        assert found is not None and close(found[0], map(np.linalg.inv, A))
        found = factor_ragged(Task("lu"), backend, a, None)
        assert found is not None
        for one, F, pivots in zip(A, found[0], found[1], strict=True):
            expected, wanted = scipy.linalg.lu_factor(one)
            assert on_host(pivots, int).tolist() == wanted.tolist() and close([F], [expected])
    place = ms.Ragged.empty_like(b)
    found = factor_ragged(Task("lu", "solve"), backend, a, b, place)
    assert found is not None and found[0] is place and close(place, map(np.linalg.solve, A, B))
    wanted = [on_host(one, "complex128") for one in place]
    assert factor_ragged(Task("lu", "solve"), backend, a, b, b) is not None and close(b, wanted)


def test_info_of_launches_per_size(backend: str) -> None:
    xp = testing.array_module(backend)
    matrices = [np.eye(n) for n in (3, 2, 3, 7, 2, 3)]
    matrices[2][1, 1], matrices[3][6, 6] = 0, 0
    a = ms.Ragged.from_list([xp.asarray(one) for one in matrices])
    found = factor_ragged(Task("lu"), backend, a, None)
    assert found is not None and on_host(found[2], int).tolist() == [0, 0, 2, 7, 0, 0]
    assert all(np.array_equal(on_host(F, float), A) for F, A in zip(found[0], matrices, strict=True))


def test_what_classes_leave_to_others() -> None:
    """Sizes that do not fit, whose groups say so, other backends, and pinned parameters, which are for one size."""
    a, b = ms.Ragged.from_list([np.eye(3), np.eye(2)]), ms.Ragged.from_list([np.ones((3, 1)), np.ones((2, 1))])
    task = Task("lu", "solve")
    assert factor_ragged(task, "emulated", a, ms.Ragged.empty([2, 3], [1, 1]), None) is None
    assert factor_ragged(task, "emulated", ms.Ragged.empty([3, 2], [2, 2]), b, None) is None
    assert factor_ragged(Task("lu"), "reference", a, None) is None
    with ms.pin(WARPS=1):
        assert factor_ragged(Task("lu"), "emulated", a, None) is None
    with pytest.raises(ValueError, match=r"out\[0\] and out\[1\] overlap"):
        factor_ragged(Task("lu"), "emulated", a, ms.Ragged(np.zeros(13), [3, 2], [3, 2], [0, 4]))


# ---- groups of one size -----------------------------------------------------------------------------------


def test_many_small_matrices_of_every_operation(backend: str) -> None:
    """Gathered where there are many of one shape, in their places where there are few: the same results."""
    xp, rng = testing.array_module(backend), np.random.default_rng(6)
    sizes = rng.permutation([4] * 20 + [2] * 3).tolist()
    A = [rng.standard_normal((n, n)) for n in sizes]
    S = [one @ one.T + np.eye(len(one)) for one in A]
    B = [rng.standard_normal((n, 2)) for n in sizes]
    a, s, b = (ms.Ragged.from_list([xp.asarray(one) for one in some]) for some in (A, S, B))

    def close(found: Any, expected: Any) -> bool:
        return len(found) == len(sizes) and all(
            np.allclose(on_host(x, float), y) for x, y in zip(found, expected, strict=True)
        )

    solved = list(map(np.linalg.solve, S, B))
    L = linalg.cholesky(s, backend=backend)
    assert close(L, map(np.linalg.cholesky, S)) and close(linalg.cho_solve((L, True), b, backend=backend), solved)
    x, info = linalg.solve_ex(s, b, assume_a="pos", backend=backend)
    assert close(x, solved) and info.tolist() == [0] * len(sizes)
    assert close(linalg.solve(s, b, backend=backend), solved)
    lu, piv = linalg.lu_factor(s, backend=backend)
    assert [len(one) for one in piv] == sizes and close(linalg.lu_solve((lu, piv), b, backend=backend), solved)
    assert close(linalg.inv(s, backend=backend), map(np.linalg.inv, S))
    assert np.allclose(on_host(linalg.det(a, backend=backend), float), list(map(np.linalg.det, A)))
    Q, R = linalg.qr(b, backend=backend)
    assert close([on_host(q, float) @ on_host(r, float) for q, r in zip(Q, R, strict=True)], B)
    h, tau = linalg.qr(b, "raw", backend=backend)
    assert close(h, [np.linalg.qr(one, "raw")[0] for one in B])
    assert close(tau, [np.linalg.qr(one, "raw")[1] for one in B])


def test_places_and_order_of_groups(backend: str) -> None:
    """Results go to `out`, wherever its matrices are; `info` keeps the order of the batch."""
    xp = testing.array_module(backend)
    sizes = [4, 3] * 20
    a, expected = batch(xp, "float64", sizes, False, 31)
    starts = a.layout.host()[2][::-1].copy()
    turned = np.cumsum([0, *(n * n for n in sizes[::-1])])[:-1][::-1].copy()
    out = ms.Ragged(xp.full(int(starts.max()) + 16, np.nan), np.array(sizes), np.array(sizes), turned)
    a[6][2, 2], a[33][0, 0] = -1, -1
    F, info = linalg.cholesky_ex(a, out=out, backend=backend)
    assert F is out and {i: int(x) for i, x in enumerate(info.tolist()) if x} == {6: 3, 33: 1}
    assert all(np.array_equal(on_host(F[i], float), expected[i]) for i in range(40) if i not in (6, 33))
    other = ms.Ragged.empty([4] * 40, [4] * 40, like=a.buffer)
    with pytest.raises(ValueError, match=r"out\[1\] has shape \(4, 4\), the result \(3, 3\)"):
        linalg.cholesky_ex(a, out=other, backend=backend)
