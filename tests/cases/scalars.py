"""Factors alpha and beta that kernels are tested with."""

from __future__ import annotations

from mansard.plan.problem import Problem

# A purely imaginary factor is none that a kernel may take for zero, nor a real one for one.
COMPLEX = ((2 - 1j, 1 + 3j), (-1j, 3j), (2, 2j), (2j, -3))


def factors_of(problem: Problem, scaled: bool) -> tuple[complex, complex]:
    """Alpha and beta for a problem, of all kinds from problem to problem; 1 and 0 unless scaled."""
    if not scaled:
        return 1.0, 0.0
    if not problem.is_complex:
        return 2.0, -3.0
    return COMPLEX[sum(size for _, size in problem.sizes) % len(COMPLEX)]
