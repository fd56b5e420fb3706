"""The reduction to bidiagonal form: every kind of matrix in one batch, its choices, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reduction_cases as common
from bidiagonal_cases import CASES, bidiagonal, check, run
from devices import A100, H200

from mansard.compile import nvrtc
from mansard.kernels.factor.bidiagonal import defaults, emit, space, spec, work
from mansard.kernels.factor.bidiagonal.space import Block, Config, Lanes, Panels
from mansard.plan.problem import DTYPES, Problem

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
LANES, BLOCK = CASES[1], CASES[8]  # float64, 8 and 33 rows
BOTH = pytest.mark.parametrize("case", [LANES, BLOCK], ids=["lanes", "block"])


@BOTH
@pytest.mark.parametrize("count", [1, 2, 9])
def test_every_size_of_a_batch(case: tuple[Problem, Config], count: int, gpu_backend: str) -> None:
    """Teams beyond the last matrix write nothing (`run` looks behind every result)."""
    problem = case[0].replace(BATCH=count)
    A = common.mixed(problem, hermitian=False, seed=3)
    check(problem, A, run(problem, case[1], gpu_backend, A))


@BOTH
def test_bidiagonal_matrices_stay_as_they_are(case: tuple[Problem, Config], gpu_backend: str) -> None:
    """Nothing has to be annihilated, so nothing is reflected: D and E are those of A, scaled, to the last bit."""
    problem = case[0]
    rng = np.random.default_rng(5)
    B = np.stack([np.diag(row) for row in rng.standard_normal((problem.BATCH, problem.N))])
    for k in range(problem.N - 1):
        B[:, k, k + 1] = rng.standard_normal(problem.BATCH)
    found = run(problem, case[1], gpu_backend, B)
    assert (bidiagonal(found) == common.scaled(B, found["SCALE"][:, 0])).all()
    assert (found["TAU_U"] == 0).all() and (found["TAU_V"] == 0).all()


@BOTH
def test_results_do_not_depend_on_the_scale_of_the_matrix(case: tuple[Problem, Config], gpu_backend: str) -> None:
    problem = case[0]
    A = common.random(problem)
    once = run(problem, case[1], gpu_backend, A)
    for power in (-900, 900):
        other = run(problem, case[1], gpu_backend, A * 2.0**power)
        for name in ("U", "V", "TAU_U", "TAU_V", "D", "E"):
            assert np.array_equal(once[name], other[name], equal_nan=True)
        assert (once["SCALE"] == other["SCALE"] * 2.0**power).all()


@pytest.mark.parametrize("kind", ["steep", "graded"])
def test_columns_whose_squares_are_negligible(kind: str, gpu_backend: str) -> None:
    """Columns near that limit, of which the first entry may be below it and the others above: Q stays unitary."""
    problem = spec.problem("complex64", 33, 100)
    A = np.stack([common.kind(problem, kind, one, False) for one in common.random(problem, 7)]).astype("complex64")
    check(problem, A, run(problem, None, gpu_backend, A))


def test_the_reference_is_a_reduction() -> None:
    rng = np.random.default_rng(2)
    for A in (rng.standard_normal((3, 6, 6)), rng.standard_normal((3, 6, 6)) + 1j * rng.standard_normal((3, 6, 6))):
        left, B, right = spec.reference(A)
        assert np.abs(left @ B @ right.conj().swapaxes(1, 2) - A).max() < 1e-13
        assert np.abs(B - np.triu(np.tril(B, 1))).max() < 1e-13


@pytest.mark.parametrize("device", [H200, A100], ids=lambda device: device.arch)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_size_has_a_legal_choice(dtype: str, device: Any) -> None:
    most = 128 if dtype != "complex128" else 96 if device is H200 else 64  # estimates have a margin elsewhere
    for N in range(2, most + 1):
        problem = spec.problem(dtype, N, 1000)
        config = defaults.default(problem, device)
        assert config is not None, f"{dtype} {N}"
        assert isinstance(config, Lanes if N <= 32 else Block) and config in set(space.candidates(problem, device))
    for N in (129, 160, 192, 256, 300, 512):
        config = defaults.default(spec.problem(dtype, N, 1000), device)
        assert isinstance(config, Panels), f"{dtype} {N}"


@needs_nvrtc
@pytest.mark.parametrize("dtype, N", [("float64", 8), ("float64", 64), ("float64", 32)])
def test_choices_compile_as_estimated(dtype: str, N: int) -> None:
    """No register has a run-time index (a stack), nothing spills, and the blocks that are counted on are resident."""
    problem = spec.problem(dtype, N, 1000)
    config = defaults.default(problem, H200)
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch)  # type: ignore[arg-type]
    resources = nvrtc.resources(entry.log)
    assert "warning" not in entry.log and resources.spill_bytes == resources.stack_bytes == 0, entry.log
    assert abs(resources.registers - work.registers(problem, config)) <= 40  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (spec.problem("float64", 1, 3), "N=1 is not between 2 and 512"),
        (spec.problem("float64", 513, 3), "N=513 is not between 2 and 512"),
        (spec.problem("float64", 8, 3, want="both"), "want='both' is not one of values, vectors"),
        (spec.problem("float64", 8, 3, stack_a="pointers"), "stack_a='pointers' is not one of packed, strided"),
        (spec.problem("int32", 8, 3), "dtype int32"),
    ],
)
def test_refusals_name_the_argument(problem: Problem, said: str) -> None:
    assert said in str(spec.refusal(problem)) and defaults.default(problem, H200) is None


@pytest.mark.parametrize(
    ("problem", "config", "said"),
    [
        (spec.problem("float64", 33, 3), Lanes(), "lanes: 33 rows"),
        (spec.problem("float64", 32, 3), Block(), "block: 32 rows"),
        (spec.problem("float64", 8, 3), Lanes(2), "LANES=2 is none of"),
        (spec.problem("float64", 8, 3), Lanes(24), "LANES=24 is none of"),
        (spec.problem("float64", 128, 3), Block(4), "registers per thread"),
        (spec.problem("float32", 128, 3), Block(2), "a warp sums products of 4 chunks"),
        (spec.problem("float64", 40, 3), Block(33), "WARPS=33 is not between"),
        (spec.problem("complex128", 97, 3), Block(16), "97 rows of complex128: registers have no room"),
        (spec.problem("float64", 512, 3), Panels(32, 16), "bytes of shared memory"),
    ],
)
def test_configurations_that_cannot_be_used(problem: Problem, config: Config, said: str) -> None:
    assert said in str(space.illegal(problem, config, H200))
