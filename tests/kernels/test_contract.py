"""The contract of kernel families: exact, within bounds, in every order of threads, compiled as estimated, stored."""

from __future__ import annotations

from typing import Any

import pytest
from contract import BOUNDED, COMPILED, CONTRACTS, EXACT, arguments, cases_of, forms, in_turns
from devices import H200
from orders import in_order

from mansard.compile import nvrtc
from mansard.kernels import family_of
from mansard.plan.problem import Problem

NAMES = {"ragged": "ragged_gemm"}  # of families whose cases have a shorter name


@EXACT
def test_cases_are_exact(family: str, case: Any, gpu_backend: str) -> None:
    for form in forms(family, case, gpu_backend):
        cases_of(family).exact(*arguments(case), gpu_backend, **form)


@BOUNDED
def test_cases_are_within_bounds(family: str, case: Any, gpu_backend: str) -> None:
    cases_of(family).bounded(*arguments(case), gpu_backend)


@pytest.mark.parametrize("family, case, order", in_turns())
def test_cases_in_other_thread_orders(family: str, case: Any, order: str) -> None:
    with in_order(order):
        form = forms(family, case, "emulated")[0]
        cases_of(family).exact(*arguments(case), "emulated", **form)


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@COMPILED
def test_cases_compile_without_spills(family: str, case: tuple[Problem, Any]) -> None:
    """Estimates of registers prune the search: they may be off by some registers, not by a factor."""
    made, (problem, config) = family_of(family), case
    entry = nvrtc.compile_cuda(made.emit.source(problem, config, "cuda"), H200.arch)
    resources = nvrtc.resources(entry.log)
    assert "warning" not in entry.log, entry.log
    assert resources.spill_bytes == 0 and resources.stack_bytes == 0 and resources.registers <= 255
    estimate = made.work.registers(problem, config)  # type: ignore[attr-defined]
    assert 0.5 * resources.registers - 16 <= estimate <= 1.6 * resources.registers + 32


@pytest.mark.parametrize("family", [one.family for one in CONTRACTS if one.family != "powers"])
def test_cases_are_legal_and_stored_faithfully(family: str) -> None:
    """Everything that the other tests run could be chosen on an H200, and survives a record."""
    space = family_of(NAMES.get(family, family)).space
    for problem, config in cases_of(family).CASES:
        if config is not None:
            assert space.illegal(problem, config, H200) is None, (problem, config)
            assert space.from_dict(space.to_dict(config)) == config
