"""Passes of Krylov solvers on CPUs, the same bits however work is divided, and what is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from devices import H200
from krylov_cases import CASES, ON_CPUS, Passes, case_id, exact
from orders import in_order, thread_orders
from sparing import every

from mansard import testing
from mansard.backends import cpu, emulated
from mansard.codegen.geometry import Device, Kernel
from mansard.kernels import family_of
from mansard.kernels.sparse.krylov import defaults, emit, space, spec, work
from mansard.kernels.sparse.krylov.spec import Lanczos, Phase, Word
from mansard.plan.problem import DTYPES, Problem

CPU = Device("cpu", "two cores", "x86_64", multiprocessors=2, vector_bytes=32)


@needs_cpu
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("case", ON_CPUS, ids=case_id)
def test_cpus_are_exact(case: tuple[Problem, Any], weighted: bool) -> None:
    exact(*case, "cpu", weighted=weighted)


def sums(passes: Passes) -> tuple[float, float]:
    """What the passes with sums leave in the state, of random numbers."""
    problem = passes.problem
    random = [testing.random_matrix(np, problem.ROWS, 1, problem.dtype, seed, False).ravel() for seed in range(6)]
    if problem.solver == "minres":
        passes(Lanczos.SCALE, *random)
        passes(Lanczos.PROJECT, *random)
        alpha = passes.word(Word.ALPHA)
        passes(Lanczos.NORM, *random)
        return alpha, passes.word(Word.BETA)
    vectors = (*random[:4], None)
    passes(Phase.BEGIN, *vectors)
    rho = passes.word(Word.RHO)
    passes(Phase.CURVATURE, *vectors)
    return rho, passes.word(Word.CURVED)


@thread_orders(every(2, CASES), case_id)
def test_sums_in_other_thread_orders(case: tuple[Problem, Any], order: str) -> None:
    """Bit for bit: a sum in the order in which blocks arrive would show."""
    expected = sums(Passes(*case, "emulated"))
    with in_order(order):
        assert sums(Passes(*case, "emulated")) == expected


@needs_cpu
@pytest.mark.parametrize("method", spec.SOLVERS)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_bits_do_not_depend_on_the_number_of_threads(dtype: str, method: str) -> None:
    problem = spec.problem(dtype, 40_000, method)
    config = defaults.default(problem, cpu.backend().device)
    assert config is not None
    found = set()
    for threads in (1, 2, 3, 7):
        passes = Passes(problem, config, "cpu")
        for phase in passes.launches:
            kernel = emit.kernel(problem, config, replace(cpu.backend().device, multiprocessors=threads), (int(phase),))
            passes.launches[phase] = cpu.backend().prepare(Kernel(kernel.source, kernel.geometry, kernel.fixed))
        found.add(sums(passes))
    assert len(found) == 1


def test_sums_are_formed_in_double_precision() -> None:
    problem, config = spec.problem("float32", 1 << 16), space.Cg(256, 4, 2)
    passes = Passes(problem, config, "emulated")
    r = testing.random_matrix(np, 1 << 16, 1, "float32", 0, False).ravel()
    passes(Phase.BEGIN, r, r, r, r, None)
    exactly = float((r.astype(float) ** 2).sum())
    assert abs(passes.word(Word.RHO) - exactly) <= 1e-12 * exactly


@pytest.mark.parametrize("method", spec.SOLVERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_rule_for_every_device(dtype: str, method: str) -> None:
    problem = spec.problem(dtype, 1_000_000, method)
    for device in (H200, CPU, emulated.backend().device):
        config = defaults.default(problem, device)
        assert config is not None and space.illegal(problem, config, device) is None
        assert {type(one) for one in space.candidates(problem, device)} == {type(config)}
    assert work.work(problem).bytes == (10 if method == "cg" else 15) * problem.itemsize * 1_000_000
    assert defaults.default(spec.problem(dtype, 1, method), H200) is not None


def test_what_is_refused() -> None:
    problem, family = spec.problem("float64", 100), family_of("krylov")
    assert "no passes of cg" in str(space.illegal(problem, space.Minres(), H200))
    assert "no passes of cg" in str(space.illegal(problem, space.SimdMinres(), CPU))
    assert "no multiple of a warp" in str(space.illegal(problem, space.Cg(48), H200))
    assert "registers" in str(space.illegal(problem, space.Cg(256, 8, 8), H200))
    assert "no multiple of 1024" in str(space.illegal(problem, space.Simd(1025), CPU))
    assert "'qmr' is not one of cg, minres" in str(family.spec.refusal(spec.problem("float64", 3, "qmr")))
    assert "without entries" in str(family.spec.refusal(spec.problem("float64", 0)))
    assert "float16" in str(family.spec.refusal(spec.problem("float16", 3)))


def test_the_reference_is_a_step_of_conjugate_gradients() -> None:
    A, x = np.diag([1.0, 2.0]), np.zeros(2)
    r = np.array([1.0, 1.0])
    x, r, p = spec.reference(x, r, r, A @ r, np.ones(2))
    x, r, _ = spec.reference(x, r, p, A @ p, np.ones(2))
    assert np.allclose(x, [1.0, 0.5]) and np.allclose(r, 0)
