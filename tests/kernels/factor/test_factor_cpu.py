"""The factorizations on CPUs: exact where they can be, within bounds, LAPACK's choices; lanes keep to themselves."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import cholesky_cases
import lu_cases
import numpy as np
import pytest
import qr_cases
from conftest import usable
from factor_cpu_cases import CHOLESKY, CHOLESKY_ROWWISE, LU, QR, ROWWISE, SMALL, SPACES, C, P, Q, case_id, demanding
from lu_tables import EXCHANGES
from scipy import linalg
from sparing import spared

import mansard as ms
from mansard.backends import cpu
from mansard.compile import cxx
from mansard.compile.cache import default_cache
from mansard.compile.key import INCLUDE_DIRS
from mansard.kernels.factor.cholesky import space_cpu as cholesky_cpu
from mansard.kernels.factor.lu import space_cpu as lu_cpu
from mansard.kernels.factor.lu import spec as lu_spec
from mansard.operations.factor import lapack as factor_lapack
from mansard.operations.factor.task import Task
from mansard.plan import factor_rules
from mansard.plan.problem import DTYPES, REAL, Problem

# each compiles a kernel of its own: a sixth of them in a run, every kind and dtype among them
LUS = spared([*LU, *ROWWISE, *SMALL], 18)
CHOLESKYS = spared([*CHOLESKY, *CHOLESKY_ROWWISE], 18)
QRS = spared([*QR, (Q("float64", 150, 140, 3), None)], 18)


@pytest.fixture(autouse=True)
def on_cpus() -> None:
    usable("cpu")


@pytest.mark.parametrize("case", EXCHANGES, ids=lambda case: f"{case[0].dtype}-{case[0].M}x{case[0].N}")
def test_rows_are_exchanged(case: tuple[Problem, Any]) -> None:
    lu_cases.swapped(*case, "cpu")


def with_config(case: tuple[Problem, Any]) -> tuple[Problem, Any]:
    problem, config = case
    rules = lu_cpu.simd if problem.operation == "lu" else SPACES[problem.operation].default
    return problem, config or rules(problem, cpu.backend().device)


def legal(case: tuple[Problem, Any]) -> tuple[Problem, Any]:
    """The case, or a skip where vectors are too short for it."""
    problem, config = with_config(case)
    reason = SPACES[problem.operation].illegal(problem, config, cpu.backend().device)
    if reason is not None:
        assert "vectors" in reason, reason
        pytest.skip(reason)
    return problem, config


def plain(cases: list[tuple[Problem, Any]], dtypes: tuple[str, ...] = DTYPES) -> list[tuple[Problem, Any]]:
    """Cases with adjacent rows and all factors, seven matrices of more than two rows each. Other tests compile them."""
    make = {"lu": P, "qr": Q}
    found = [(make[p.operation](p.dtype, p.M, p.N, 7), p, config) for p, config in cases if "M" in dict(p.sizes)]
    alike = [(seven, config) for seven, p, config in found if seven == p.replace(BATCH=7) and p.M > 2]
    return [case for case in alike if case[0].dtype in dtypes]


# ---- exact, and within bounds -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", LUS, ids=case_id)
def test_lu(case: tuple[Problem, Any]) -> None:
    problem, config = legal(case)
    lu_cases.exact(problem, config, "cpu")
    lu_cases.exact(problem, config, "cpu", seed=2, spoil=True)
    if problem.want in ("factor", "solve", "inverse"):
        lu_cases.bounded(problem, config, "cpu")


@pytest.mark.parametrize("case", CHOLESKYS, ids=case_id)
def test_cholesky(case: tuple[Problem, Any]) -> None:
    problem, config = legal(case)
    cholesky_cases.exact(problem, config, "cpu")
    cholesky_cases.exact(problem, config, "cpu", in_place=True, seed=2)
    cholesky_cases.bounded(problem, config, "cpu")


@pytest.mark.parametrize("case", QRS, ids=case_id)
def test_qr(case: tuple[Problem, Any]) -> None:
    problem, config = legal(case)
    A = qr_cases.numbers(problem, "a")
    B = qr_cases.numbers(problem, "b", 1) if problem.want == "solve" else None
    got = qr_cases.check(problem, config, "cpu", A, B)
    if problem.want != "raw":
        return
    F, tau = qr_cases.geqrf(A)
    bound = 64 * max(problem.M, problem.N) * np.finfo(problem.dtype).eps
    scale = abs(F).max(axis=(1, 2), keepdims=True)
    assert (abs(got.F - F) <= bound * scale * np.linalg.cond(A)[:, None, None]).all()
    assert (abs(got.tau - tau) <= bound * np.linalg.cond(A)[:, None]).all()


# ---- the batch --------------------------------------------------------------------------------------------


def test_every_size_of_a_batch() -> None:
    """None, one, one less and one more than there are lanes."""
    for batch in (0, 1, 2, 7, 8, 9, 15, 16, 17, 33):
        lu_cases.exact(*with_config((P("float64", 6, 6, batch), None)), "cpu")
        cholesky_cases.exact(*with_config((C("float64", 6, batch), None)), "cpu")
        if batch:
            problem, config = with_config((Q("float64", 6, 6, batch), None))
            qr_cases.check(problem, config, "cpu", qr_cases.numbers(problem, "a"))


def test_threads_share_a_batch() -> None:
    """Enough products that a second thread wakes up."""
    lu_cases.exact(*with_config((P("float64", 9, 9, 4001), None)), "cpu")
    cholesky_cases.exact(*with_config((C("float64", 9, 8001), None)), "cpu")


NEIGHBOURS: dict[str, dict[str, tuple[int, ...]]] = {  # orders of matrices, nearly all of kernels that others compile
    "float64": {"lu": (8, 21), "cholesky": (8, 64), "qr": (3, 17)},
    "float32": {"lu": (16,), "cholesky": (17,), "qr": (16,)},
    "complex64": {"lu": (3,), "cholesky": (6,), "qr": (5,)},
    "complex128": {"lu": (9,), "cholesky": (19,), "qr": (19,)},
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_neighbours_do_not_notice(dtype: str) -> None:
    """NaN, infinity, and numbers of other sizes in some matrices change no bit of the others."""
    strange = {3: np.nan, 5: np.inf, 10: 0, 12: np.finfo(dtype).tiny / 4, 17: np.finfo(dtype).max / 4}
    kept = np.setdiff1d(np.arange(19), list(strange))

    def stacks(n: int) -> tuple[Any, Any]:
        A = demanding(dtype, n, n, 19)["random"]
        A = A @ A.conj().swapaxes(1, 2) + np.eye(n, dtype=dtype)
        dirty = A.copy()
        for number, value in strange.items():
            dirty[number, :, n // 2 :] = value
        return A, dirty

    orders = NEIGHBOURS[dtype]
    for n in orders["lu"]:
        factors = [lu_cases.launch(*with_config((P(dtype, n, n, 19), None)), "cpu", one) for one in stacks(n)]
        assert (factors[0].F[kept] == factors[1].F[kept]).all() and (factors[0].pivots == factors[1].pivots)[kept].all()
    for n in orders["cholesky"]:
        problem = C(dtype, n, 19, uplo="upper" if dtype == "complex64" else "lower")
        halves = [_cholesky(with_config((problem, None)), one)[0] for one in stacks(n)]
        assert (halves[0][kept] == halves[1][kept]).all()
    for n in orders["qr"]:
        raw = [qr_cases.run(*with_config((Q(dtype, n, n, 19), None)), "cpu", one) for one in stacks(n)]
        assert (raw[0].F[kept] == raw[1].F[kept]).all() and (raw[0].tau[kept] == raw[1].tau[kept]).all()


def _cholesky(case: tuple[Problem, Any], A: Any) -> tuple[Any, Any]:
    out = cholesky_cases.empty_result(case[0], np)
    info = cholesky_cases.launch(*case, "cpu", cholesky_cases.stack_of(case[0], "a", np, A), None, out)
    return np.array(out.view), info


# ---- as LAPACK does ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", plain(LUS), ids=case_id)
def test_lu_of_demanding_matrices(case: tuple[Problem, Any]) -> None:
    """LAPACK's ratio, |P A - L U| over n eps |A|, and its pivots where rounding does not decide about them."""
    problem, config = legal(case)
    dtype, rows, columns = problem.dtype, problem.M, problem.N
    for name, A in demanding(dtype, rows, columns).items():
        got = lu_cases.launch(problem, config, "cpu", A)
        wide = A.astype(np.clongdouble if problem.is_complex else np.longdouble)
        steps = min(rows, columns)
        L = np.tril(got.F, -1)[:, :, :steps].astype(wide.dtype) + np.eye(rows, steps)
        U = np.triu(got.F)[:, :steps].astype(wide.dtype)
        order = lu_cases.spec.permutation(got.pivots, rows)
        apart = abs(np.take_along_axis(wide, order[:, :, None], 1) - L @ U).sum(1).max(1)
        assert (apart <= 30 * columns * np.finfo(dtype).eps * abs(wide).sum(1).max(1)).all(), name
        assert (abs(L) <= 1.5).all(), name
        if name in ("random", "graded"):
            assert (got.pivots == np.stack([linalg.lu_factor(a)[1][:steps] for a in A])).all(), name
            assert not got.info.any()


@pytest.mark.parametrize("case", plain(QRS), ids=case_id)
def test_qr_of_demanding_matrices(case: tuple[Problem, Any]) -> None:
    problem, config = legal(case)
    dtype, shape = problem.dtype, (problem.M, problem.N)
    for A in demanding(dtype, *shape).values():
        qr_cases.check(problem, config, "cpu", A)
    sparse = np.zeros((7, *shape), dtype)
    sparse[:, 0, 0], sparse[1, -1, 0], sparse[2:, :, -1] = 1, np.finfo(REAL[dtype]).tiny, 2
    qr_cases.check(problem, config, "cpu", sparse)


@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions_of_ill_conditioned_systems(dtype: str) -> None:
    """Residuals stay as small as they are for LAPACK."""
    problem, config = with_config((P(dtype, 14, 14, 7, NRHS=1, want="solve"), None))
    eps = np.finfo(dtype).eps
    for name in ("random", "ill", "graded", "tiny", "huge"):
        A = demanding(dtype, 14, 14)[name]
        B = A.sum(2, keepdims=True)
        X = lu_cases.launch(problem, config, "cpu", A, B).X
        residual = abs(A.astype(np.clongdouble) @ X - B).sum(1)[:, 0]
        norms = abs(A.astype(np.clongdouble)).sum(1).max(1) * abs(X).sum(1)[:, 0]
        assert (residual <= 30 * 14 * eps * norms).all(), name


@pytest.mark.parametrize("case", plain(LUS), ids=case_id)
def test_ties_are_broken_as_in_lapack(case: tuple[Problem, Any]) -> None:
    """Entries of one size everywhere: the first of the rows as they stand after all exchanges so far."""
    rng, (problem, config) = np.random.default_rng(5), legal(case)
    problem, shape = problem.replace(BATCH=40), (40, problem.M, problem.N)
    A = rng.choice([1, -1, 1j] if problem.is_complex else [1, -1], shape) * rng.choice([1, 2], shape)
    got = lu_cases.launch(problem, config, "cpu", A.astype(problem.dtype))
    _, expected, _ = lu_cases.spec.reference(A.astype(problem.dtype))
    first = 2  # steps that are exact
    assert (got.pivots[:, :first] == expected[:, :first]).all()


@pytest.mark.parametrize("case", plain(LUS, ("float32", "float64")), ids=case_id)
def test_a_nan_is_a_pivot_only_where_it_stands(case: tuple[Problem, Any]) -> None:
    """As in LAPACK: a NaN in the row of the pivot stays there, and others are passed over."""
    problem, config = legal(case)
    rows = np.arange(problem.M)
    A = np.random.default_rng(problem.M).standard_normal((problem.M + 1, problem.M, problem.N)).astype(problem.dtype)
    A[rows, rows, 0] = np.nan
    got = lu_cases.launch(problem.replace(BATCH=problem.M + 1), config, "cpu", A)
    expected = np.nan_to_num(abs(A[:, :, 0]), nan=-1).argmax(1)
    expected[0] = 0
    assert (got.pivots[:, 0] == expected).all()


def test_info_of_singular_and_indefinite_matrices() -> None:
    """The first zero pivot, and the first minor that is not positive."""
    A = np.tile(np.eye(9), (20, 1, 1))
    for number in range(1, 10):
        A[number, number - 1, number - 1] = 0
    assert (
        lu_cases.launch(*with_config((P("float64", 9, 9, 20), None)), "cpu", A).info[:11] == range(10 + 1)
    ).sum() == 10
    tiny = np.tile(np.eye(4), (9, 1, 1))
    tiny[3, 1, 1], tiny[6, 3, 3], tiny[7] = 0, 1e-310, 0
    assert lu_cases.launch(P("float64", 4, 4, 9), lu_cpu.Small(2), "cpu", tiny).info.tolist() == [
        0,
        0,
        0,
        2,
        0,
        0,
        0,
        1,
        0,
    ]
    A[10, 3, 3], A[11, 7, 7], A[12, 2, 2] = -1, np.nan, np.inf
    for groups in (1, 2):
        F, info = _cholesky((C("float64", 9, 20), cholesky_cpu.Simd(2, 4, 4, groups)), A)
        assert info[:12].tolist() == [0, *range(1, 10), 4, 8] and not info[12:].any()
        good = info == 0
        assert (F[good] == np.sqrt(A[good])).all()
    info = _cholesky((C("float64", 9, 20), cholesky_cpu.Rowwise(2, 4)), A)[1]
    assert info[:12].tolist() == [0, *range(1, 10), 4, 8] and not info[12:].any()


# ---- the space --------------------------------------------------------------------------------------------


_ROWS = ("rowwise", "simd", "rowwise")


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_lu_goes_by_the_kernel_that_won(vector_bytes: int) -> None:
    """Measured on two cores of a Neoverse N1 and of a Xeon; vectors of 32 bytes were not."""
    device = replace(cpu.backend().device, vector_bytes=vector_bytes)
    wanted: dict[tuple[str, str], dict[int, tuple[str, str, str]]] = {
        ("float64", "factor"): {6: ("small", "simd", "small"), 14: _ROWS, 20: ("rowwise", "simd", "simd")},
        ("float64", "solve"): {8: ("rowwise", "simd", "small"), 32: ("rowwise", "simd", "simd"), 64: _ROWS},
        ("float64", "inverse"): {4: ("small", "simd", "small"), 10: _ROWS},
        ("float32", "factor"): {6: ("small", "simd", "small"), 24: ("rowwise", "simd", "simd")},
        ("complex128", "factor"): {7: ("small", "simd", "small"), 10: ("simd", "simd", "simd")},
    }  # fmt: skip
    for (dtype, want), sizes in wanted.items():
        for size, variants in sizes.items():
            problem = lu_spec.problem(dtype, size, size, 1000, want=want, NRHS=1 if want == "solve" else 0)
            chosen = lu_cpu.default(problem, device)
            assert variants[(16, 32, 64).index(vector_bytes)] == chosen.VARIANT, (dtype, want, size, chosen)


@pytest.mark.parametrize("family", SPACES)
def test_candidates_are_legal_and_end_with_the_default(family: str) -> None:
    make = {"lu": lambda d, n: P(d, n, n, 50), "cholesky": lambda d, n: C(d, n, 50), "qr": lambda d, n: Q(d, n, n, 50)}
    device, space = cpu.backend().device, SPACES[family]
    for dtype in DTYPES:
        for n in (1, 4, 16, 33, 64):
            problem = make[family](dtype, n)
            found = list(space.candidates(problem, device))
            assert found[-1] == space.default(problem, device) and len(set(found)) == len(found)
            assert all(space.illegal(problem, config, device) is None for config in found)
        assert not list(space.candidates(make[family](dtype, 1025), device))


@pytest.mark.parametrize(
    "case",
    [
        LU[1],
        LU[11],
        LU[31],
        LU[36],
        ROWWISE[0],
        ROWWISE[-1],
        SMALL[6],
        SMALL[-1],
        CHOLESKY[16],
        *CHOLESKY_ROWWISE[4:6],
        QR[4],
        QR[18],
    ],
    ids=case_id,
)
def test_workspaces_are_as_large_as_kernels_say(case: tuple[Problem, Any]) -> None:
    problem, config = legal(case)
    emit = {"lu": lu_cases.emit, "cholesky": cholesky_cases.emit, "qr": qr_cases.emit}[problem.operation]
    source = emit.source(problem, config, "cpu")
    shape = {
        "lu": {"rowwise": "LuRowwise", "simd": "LuShape", "small": "LuSmall"}[config.VARIANT],
        "cholesky": "CholeskyRowwise" if config.VARIANT == "rowwise" else "CholeskyShape",
        "qr": "QrShape",
    }[problem.operation]
    bytes_each = SPACES[problem.operation].workspace_bytes(problem, config, 1)
    real = np.dtype(REAL[problem.dtype]).itemsize
    together = getattr(config, "MATRICES", 1)
    claim = f"static_assert(mansard::{shape}<Params>::WORKSPACE * {real * together} == {bytes_each});\n"
    command = [cxx.find_compiler()[0], *cxx.CPU_FLAGS, *(f"-I{folder}" for folder in INCLUDE_DIRS)]
    prelude = cxx._precompiled(default_cache().root)
    command += [*(["-include", str(prelude)] if prelude else []), "-fsyntax-only", "-xc++", "-"]
    checked = subprocess.run(command, input=source.text + claim, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_a_single_number_is_a_matrix_too() -> None:
    """So few operations that they round to none."""
    five = np.array([[[5.0]]])
    for _ in range(2):  # whatever memory held before
        F, pivots, info = ms.linalg.lu_factor_ex(five)
        assert (F, pivots, info) == (5.0, 0, 0)
        assert ms.linalg.det(five) == 5.0 and ms.linalg.inv(five) == 0.2 and ms.linalg.solve(five, 2 * five) == 2.0
        assert ms.linalg.cholesky(np.array([[[4.0]]])) == 2.0 and abs(ms.linalg.qr(five)[1]) == 5.0


def test_few_large_matrices_are_left_to_lapack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a compiler there; and none of several cores has nothing to do."""
    monkeypatch.setattr(factor_lapack.settings, "current", lambda: SimpleNamespace(threads=8))
    few = factor_rules.suits_few
    assert few(200, 200, 8) and few(512, 512, 4) and few(129, 129, 1)
    assert not few(200, 200, 9) and not few(512, 512, 5) and not few(128, 128, 1) and not few(5000, 20, 1)


_SHARED = [*factor_lapack._ANSWERS, ("cholesky", "upper"), ("lu", "without pivots")]


@pytest.mark.parametrize("family, want", _SHARED, ids=map(" ".join, _SHARED))
def test_threads_share_what_lapack_does(family: str, want: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one thread gives, in the same order, with bad matrices among them, which other routines may do."""
    plain = "factor" if want in ("upper", "without pivots") else want
    task = Task(family, plain, want == "upper", want != "without pivots")
    rng = np.random.default_rng(5)
    A, B = rng.standard_normal((2, 7, 6, 6)), rng.standard_normal((2, 7, 6, 3))
    if family == "cholesky":
        A = A @ A.swapaxes(-1, -2) + np.eye(6)
        A[1, 4] -= 50 * np.eye(6)
    if family == "lu" and want not in ("determinant", "logdet"):
        A[0, 5, :, 2] = 0
    B = B if plain == "solve" else None
    alone = factor_lapack.answer(task, A, B)
    monkeypatch.setattr(factor_lapack, "_WORTH", 0)
    monkeypatch.setattr(factor_lapack.settings, "current", lambda: SimpleNamespace(threads=3))
    assert len(factor_lapack.shares_of(A.shape, factor_lapack._SINGLE)) == 3
    shared = factor_lapack.answer(task, A, B)
    assert shared.keys() == alone.keys()
    for part, one in alone.items():
        assert shared[part].shape == one.shape and shared[part].dtype == one.dtype
        assert np.allclose(shared[part], one, 1e-13, 1e-13, equal_nan=True), part
