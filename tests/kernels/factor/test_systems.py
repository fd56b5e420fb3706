"""`systems`: singular and indefinite matrices beside others, NaN, ties, parts of right-hand sides, pivots, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from devices import A100, H200
from sparing import spared
from systems_cases import CASES, ORDERS, Made, exact, integers, launch, made

from mansard.arrays import kinds as arrays
from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.kernels.factor.lu import spec as lu_spec
from mansard.kernels.factor.systems import defaults, emit, space, spec, work
from mansard.kernels.factor.systems.space import Columns, Residuals
from mansard.operations.factor import info

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


@pytest.mark.parametrize("order", ORDERS)
def test_any_strides(order: str, gpu_backend: str) -> None:
    """Rows, columns, gaps between all entries, and matrices whose entries lie side by side."""
    problem = spec.problem("float64", 3, 3, 5, NRHS=42)
    given = made(problem, 3)
    found = launch(problem, Columns(8), gpu_backend, given, order)
    assert np.array_equal(found.X, given.X) and not found.info.any()


def test_singular_matrices_leave_their_neighbours_alone(gpu_backend: str) -> None:
    """`info` is the first pivot that is exactly zero, as LAPACK counts."""
    problem = spec.problem("float64", 4, 4, 9, NRHS=11)
    given = made(problem, 1)
    given.A[2], given.A[5, :, 1], given.A[7, 3] = 0, 0, given.A[7, 2]
    found = launch(problem, Columns(4), gpu_backend, given)
    expected = lu_spec.reference(given.A)[2]
    fine = [m for m in range(9) if m not in (2, 5, 7)]
    assert (found.info == expected).all() and found.info[2] == 1 and found.info[5] == 2
    assert np.array_equal(found.X[fine], given.X[fine])


def test_indefinite_matrices_leave_their_neighbours_alone(gpu_backend: str) -> None:
    """`info` is the order of the first minor that is not positive; NaN is not positive."""
    problem = spec.problem("float64", 5, 5, 4, NRHS=9, want="positive")
    given = made(problem, 1)
    given.A[1, 2, 2], given.A[2, 4, 4] = -1, np.nan
    given.A[3] += np.triu(np.full((5, 5), np.nan), 1)  # the upper triangle is not read
    found = launch(problem, Columns(8), gpu_backend, given)
    assert list(found.info) == [0, 3, 5, 0] and np.array_equal(found.X[[0, 3]], given.X[[0, 3]])


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_pivots_are_those_of_lapack(dtype: str, gpu_backend: str) -> None:
    """Of equal entries the first row, and a NaN only where it stands on the diagonal: what follows shows which."""
    nan, problem = np.nan, spec.problem(dtype, 2, 2, 3, NRHS=3)
    A = np.array([[[1, 1], [-1, 1]], [[nan, 1], [1, 1]], [[1, 1], [nan, 1]]], dtype)
    B = np.ones((3, 2, 3), dtype)
    found = launch(problem, Columns(4), gpu_backend, Made(A, B, B))
    assert np.array_equal(found.X[0], np.array([[0] * 3, [1] * 3], dtype)) and np.isnan(found.X[1:]).all()
    assert not found.info.any()


@pytest.mark.parametrize("scale", [2.0**-1030, 2.0**1000])
def test_pivots_near_the_ends_of_the_range(scale: float, gpu_backend: str) -> None:
    """Subnormal pivots have no reciprocal: what is divided by is divided by."""
    problem = spec.problem("float64", 3, 3, 1, NRHS=10)
    A = np.array([[[0.0, 2, 0], [4, 0, 0], [0, 0, 1]]]) * scale
    X = np.arange(30.0).reshape(1, 3, 10) % 8
    found = launch(problem, Columns(32), gpu_backend, Made(A, A @ X, X))
    assert np.array_equal(found.X, X)


def test_parts_of_right_hand_sides_have_the_same_bits(gpu_backend: str) -> None:
    """Few matrices: several teams factor the same one, each for a part of its right-hand sides."""
    few, many = spec.problem("float64", 6, 6, 1, NRHS=300), spec.problem("float64", 6, 6, 1 << 20, NRHS=300)
    config = Columns(8)
    assert work.sides(few, config, H200) == 8 and work.sides(many, config, H200) == 304
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((1, 6, 6)), rng.standard_normal((1, 6, 300))
    parts = launch(few, config, gpu_backend, Made(A, B, B)).X
    alone = [launch(few.replace(NRHS=1), Columns(32), gpu_backend, Made(A, B[..., i : i + 1], B[..., :1])).X
             for i in (0, 7, 8, 299)]  # fmt: skip
    assert np.array_equal(parts[..., [0, 7, 8, 299]], np.concatenate(alone, -1))


def test_pivots_beyond_the_rows_exchange_nothing(gpu_backend: str) -> None:
    problem = spec.problem("float64", 2, 2, 2, NRHS=1, want="lu")
    B = np.array([[[1.0], [2.0]]] * 2)
    given = Made(np.eye(2)[None].repeat(2, 0), B, B, pivots=np.array([[1, 1], [9, -5]], np.int32))
    assert list(launch(problem, Columns(4), gpu_backend, given).X.reshape(-1)) == [2, 1, 1, 2]


def test_more_items_than_a_grid_has(gpu_backend: str) -> None:
    """Teams take one item after the other where a grid is small."""
    problem, config = spec.problem("float32", 2, 2, 67, NRHS=3), Columns(4, 1)
    given = made(problem)
    kernel = emit.kernel(problem, config, H200, spec.strides(problem))
    assert kernel.geometry.grid == (9, 1, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "blocks", lambda problem, config, device: 2)
        found = launch(problem, config, gpu_backend, given)
    assert np.array_equal(found.X, given.X) and not found.info.any()


@pytest.mark.parametrize("count", [1, 31, 1024, 8193, 20_000])
def test_one_integer_among_many(count: int) -> None:
    """The last one, and none; by the emulator, whose host reads the word as a GPU's does."""
    kind = arrays.KINDS["numpy"]
    check = info.checked(kind, ("cpu", 0), count, "emulated")
    for at in (count - 1, count // 2):
        numbers = np.zeros(count, np.int32)
        assert check(numbers) is False
        numbers[at] = -3
        assert check(numbers) is True
    assert info.has_nonzero(numbers) is None, "in the CPU's memory NumPy looks"


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 11, 16])
def test_every_want_by_the_rules(n: int, gpu_backend: str) -> None:
    for number, want in enumerate(spec.WANTS[:-1]):
        dtype = ("float64", "complex64", "float32", "complex128")[(number + n) % 4]
        problem = spec.problem(dtype, n, n, 3, NRHS=1 + 7 * (number % 3), want=want)
        config = defaults.default(problem, H200)
        assert config is not None
        exact(problem, config, gpu_backend, number)


def test_refusals() -> None:
    problem = spec.problem("float64", 4, 4, 9, NRHS=9)
    for other, reason in (
        (replace(problem, dtype="int32"), "dtype int32"),
        (spec.problem("float64", 5, 4, 9), "5 x 4"),
        (spec.problem("float64", 33, 33, 9), "33 rows"),
        (spec.problem("float64", 4, 4, 9, want="inverse"), "want='inverse'"),
        (spec.problem("float64", 4, 4, 9, stack_b="pointers"), "without a common stride"),
    ):
        assert reason in str(spec.refusal(other)), other
    residuals = spec.problem("float64", 90, 40, 9, want="residuals")
    assert "want='residuals'" in str(space.illegal(residuals, Columns(), H200))
    assert "want='solve'" in str(space.illegal(problem, Residuals(), H200))
    assert "3 lanes" in str(space.illegal(problem, Columns(3), H200))
    assert space.illegal(residuals, Residuals(8), H200) is None
    assert "is for GPUs" in str(space.illegal(problem, Columns(), Device("cpu", "two cores", "x86_64", 2)))


def test_rules_have_a_lane_for_every_row_and_right_hand_side() -> None:
    teams = {
        (n, k): defaults.default(spec.problem("float64", n, n, 99, NRHS=k), H200) for n in (1, 5, 16) for k in (1, 9)
    }
    assert {key: one.TEAM for key, one in teams.items() if isinstance(one, Columns)} == {
        (1, 1): 4, (1, 9): 16, (5, 1): 8, (5, 9): 16, (16, 1): 16, (16, 9): 16
    }  # fmt: skip
    wide = defaults.default(spec.problem("complex128", 32, 32, 99, NRHS=40), A100)
    assert wide is not None and space.illegal(spec.problem("complex128", 32, 32, 99, NRHS=40), wide, A100) is None


def test_work_counts_what_is_read_once() -> None:
    solve, residuals = (spec.problem("float64", 4, 4, 10, NRHS=3, want=want) for want in ("solve", "residuals"))
    assert work.work(solve).bytes == work.work(residuals).bytes - 10 * 3 * 8 == 10 * (16 + 2 * 12) * 8
    assert work.work(residuals).flops == 10 * 2 * 16 * 3


def test_candidates_are_legal() -> None:
    for problem in (
        spec.problem("complex128", 32, 32, 99, NRHS=40),
        spec.problem("float64", 9, 4, 9, want="residuals"),
    ):
        found = list(space.candidates(problem, H200))
        assert len(found) >= 10 and all(space.illegal(problem, one, H200) is None for one in found)


def test_integers_have_both_parts() -> None:
    values = integers(np.random.default_rng(0), (50,), "complex64")
    assert values.dtype == "complex64" and np.ptp(values.real) == np.ptp(values.imag) == 6 and len(CASES) == 23


@needs_nvrtc
@pytest.mark.parametrize("dtype", spared(["float32", "float64", "complex64", "complex128"], 2))
def test_rules_compile_without_spills(dtype: str) -> None:
    for n, want in ((4, "solve"), (16, "solve"), (16, "positive"), (16, "adjoint"), (16, "cholesky")):
        problem = spec.problem(dtype, n, n, 1000, NRHS=40, want=want)
        config = defaults.default(problem, H200)
        assert config is not None
        found = nvrtc.resources(nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch).log)
        assert found.spill_bytes == 0 and found.registers <= work.registers(problem, config), (problem, found)
