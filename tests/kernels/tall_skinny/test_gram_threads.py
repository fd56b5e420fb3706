"""Long sums on CPUs: threads share them, and no bit of the result depends on how many there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from conftest import needs_cpu

from mansard import testing
from mansard.backends import cpu
from mansard.kernels.tall_skinny.gram import emit, space_cpu, spec
from mansard.plan import dispatch
from mansard.plan.problem import Problem

PROBLEM = spec.problem("float64", 5, 6, 60_001)


def by_threads(problem: Problem, threads: int, A: Any, B: Any) -> Any:
    """A^H B by the kernel of this shape, told of so many threads."""
    device = cpu.backend().device
    config = dispatch.choose(problem, device).config
    kernel = emit.kernel(problem, config, replace(device, multiprocessors=threads), (5, 1, 6, 1, 6, 1))
    C = np.full((5, 6), np.nan)
    cpu.backend().prepare(kernel)((A.ctypes.data, B.ctypes.data, C.ctypes.data), (1.0, 0.0, 0.0, 0.0), 0)
    return C


@needs_cpu
def test_every_part_of_a_long_sum_is_added() -> None:
    assert space_cpu.parts(PROBLEM) == 5
    A, B = testing.operands(PROBLEM, "cpu", integers=True)
    for threads in (1, 2, 3):
        assert (by_threads(PROBLEM, threads, A, B) == A.T @ B).all()


@needs_cpu
def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    A, B = testing.operands(PROBLEM, "cpu")
    one, *others = (by_threads(PROBLEM, threads, A, B) for threads in (1, 2, 3))
    assert testing.gram_error(one, A, B) <= 1.0 and all((one == other).all() for other in others)
