"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common.configs import OnCpu
from ...common.vectors import bad_lanes, words_of
from . import spec


@dataclass(frozen=True)
class Simd(OnCpu):
    """A matrix per lane; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector, matrices at a time
    SWEEPS: int = 30  # sweeps after which a matrix counts as not converged


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    if reason := spec.refusal(problem) or spec.too_large(problem, spec.LARGEST_ON_CPU):
        return reason
    return bad_lanes(c.LANES, words_of(problem)[1], device)


def ranked(problem: Problem, device: Device) -> Iterator[Simd]:
    """Whole vectors."""
    yield Simd(max(16, device.vector_bytes) // words_of(problem)[1])


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """Whole vectors, and half of them."""
    lanes = max(16, device.vector_bytes) // words_of(problem)[1]
    yield from (c for c in (Simd(lanes // 2), Simd(lanes)) if illegal(problem, c, device) is None)


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """For each thread A, V and W of the matrices of a group."""
    words, real = words_of(problem)
    N = problem.N
    return int(threads * c.LANES * real * (2 * words * N * N + N))
