"""Rules on GPUs that nobody measured: every choice is legal, compiles without spills, and rests on no other's sweep.

2560 choices: 16 operations, 40 shapes, 4 architectures. Without compiling, the rules' choice is checked for all of
them; where the model may choose another one, which takes it a while, that is checked for a fixed twenty-fourth. A run
compiles a fixed sample of 16, and 7 that once spilled. `--all-cases` takes them all; `results/architectures.md` says
which have been compiled.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from sparing import takes_all

from mansard.compile import nvrtc
from mansard.kernels import family_of
from mansard.kernels.common import measured
from mansard.operations import registry
from mansard.operations.sizes import Asked
from mansard.plan import explain
from mansard.plan.problem import DTYPES, Problem

ARCHS = ("sm_80", "sm_89", "sm_100", "sm_120")
SMALL = (1, 3, 6, 8, 13, 16, 20, 27, 32, 48)  # orders of matrices, widths of tall ones
LONG, MANY = 1 << 20, 100_000  # rows of tall matrices, matrices of a batch
SHAPES: dict[str, Any] = {
    "gram": lambda n: {"m": n, "k": LONG},
    "matmul": lambda n: {"m": LONG, "k": n},
    "tsmm": lambda n: {"m": n, "k": LONG},
    "tsm2r": lambda n: {"m": 8192, "k": 8192, "n": n},
    "matmul_gram": lambda n: {"m": n, "k": LONG},
    "spmv": lambda n: {"m": LONG, "k": n},
    "matrix_powers": lambda n: {"m": LONG, "k": n},
}  # others: n x n matrices in a batch
# one name for each kernel: others are made of these, or ask for the same problems
OPERATIONS = (
    "gram", "matmul", "tsmm", "tsm2r", "matmul_gram", "gemm", "gemv", "trsm", "cholesky", "lu_factor", "qr", "solve",
    "inv", "det", "spmv", "matrix_powers",
)  # fmt: skip
CASES = [
    (operation, arch, dtype, size)
    for operation, size, dtype, arch in product(OPERATIONS, SMALL, DTYPES, ARCHS)
]  # fmt: skip
# One case per operation, of small sizes, which compile fast: each architecture, dtype and size four times.
SAMPLE = [
    (operation, ARCHS[(i + i // 4) % 4], DTYPES[i // 4 % 4], SMALL[i % 4])
    for i, operation in enumerate(OPERATIONS)
]  # fmt: skip

# Cases that spilled before their families said what the compiler takes beyond estimates that were fitted to sm_90a.
MENDED = [
    ("tsmm", "sm_89", "complex128", 8), ("tsm2r", "sm_80", "float32", 13), ("tsm2r", "sm_120", "float64", 48),
    ("gemv", "sm_100", "float32", 8), ("inv", "sm_100", "complex128", 20), ("inv", "sm_80", "complex128", 32),
    ("cholesky", "sm_80", "float64", 20),
]  # fmt: skip


def problem_of(operation: str, dtype: str, size: int) -> Problem:
    sizes = SHAPES.get(operation, lambda n: {"m": n, "batch": MANY})(size)
    return registry.problem_of(Asked(operation, dtype, **sizes))


def plan_of(operation: str, arch: str, dtype: str, size: int) -> Any:
    return explain.plan_without_arrays(problem_of(operation, dtype, size), explain.Absent(explain.NOMINAL[arch]))


@pytest.mark.parametrize("arch", ARCHS)
def test_choices_are_legal(arch: str) -> None:
    device = explain.NOMINAL[arch]
    cases = {problem_of(name, dtype, size): (name, dtype, size) for name, of, dtype, size in CASES if of == arch}
    for index, (problem, (name, dtype, size)) in enumerate(cases.items()):
        family = family_of(problem.operation)
        if family.trusts_rules or takes_all() or index % 24 == ARCHS.index(arch):
            assert_legal(plan_of(name, arch, dtype, size))
        elif not family.spec.refusal(problem):
            config = family.defaults.default(problem, device)
            assert config is None or family.space.illegal(problem, config, device) is None, (problem, config)


def assert_legal(plan: Any) -> None:
    """The choice is legal, or left to the array library with a reason."""
    if plan.choice.config is None:
        assert plan.choice.reason, plan.problem
    else:
        reason = plan.choice.family.space.illegal(plan.problem, plan.choice.config, plan.backend.device)
        assert reason is None, (plan.problem, plan.choice.config, reason)


@pytest.mark.parametrize("case", CASES if takes_all() else SAMPLE + MENDED, ids=str)
def test_choices_compile_without_spills(case: tuple[str, str, str, int]) -> None:
    if reason := nvrtc.available():
        pytest.skip(reason)
    plan = plan_of(*case)
    assert_legal(plan)
    if plan.choice.config is None:
        return  # the array library, or blocks: there is nothing to compile
    found = nvrtc.resources(plan.log())
    assert found.registers > 0 and found.spill_bytes == 0, (plan.choice.config, found)


@pytest.mark.parametrize("arch", ARCHS)
def test_no_sweep_speaks_for_a_device_that_was_not_measured(arch: str) -> None:
    assert not measured.folder(explain.NOMINAL[arch]).exists()
