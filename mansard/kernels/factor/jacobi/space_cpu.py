"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names
from ...common import measured
from ...common.configs import OnCpu
from ...common.vectors import bad_lanes, words_of
from . import spec


@dataclass(frozen=True)
class Simd(OnCpu):
    """A matrix per lane; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector, matrices at a time
    SWEEPS: int = 30  # sweeps, or steps per row of `condensed`, after which a matrix counts as not converged
    METHOD: Annotated[str, Names("jacobi", "condensed")] = "jacobi"


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    if reason := spec.refusal(problem) or spec.too_large(problem, spec.largest_on_cpu(problem)):
        return reason
    if c.METHOD == "condensed" and not _may_condense(problem):
        return "METHOD=condensed: for real matrices, and by way of method=any (Jacobi's was asked for)"
    return bad_lanes(c.LANES, words_of(problem)[1], device)


def _may_condense(problem: Problem) -> bool:
    return spec.takes_any_method(problem) and not problem.is_complex


_CONDENSED_FROM = 12  # rows from which a reduction and its iteration take fewer operations than sweeps of Jacobi's do


def ranked(problem: Problem, device: Device) -> Iterator[Simd]:
    """Whole vectors."""
    lanes = max(16, device.vector_bytes) // words_of(problem)[1]
    least = measured.number("jacobi", device, "CONDENSED_FROM", _CONDENSED_FROM)
    if least <= problem.N and _may_condense(problem):
        yield Simd(lanes, METHOD="condensed")
    yield Simd(lanes)


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """Whole vectors, and half of them, by both methods."""
    lanes = max(16, device.vector_bytes) // words_of(problem)[1]
    every = (Simd(count, METHOD=method) for count in (lanes // 2, lanes) for method in ("jacobi", "condensed"))
    yield from (c for c in every if illegal(problem, c, device) is None)


_SAVED = 4  # steps whose rotations wait for the vectors (condensed.hpp)


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """For each thread A, V and W of the matrices of a group; what the condensed method adds."""
    words, real = words_of(problem)
    N = problem.N
    sides = 2 if spec.is_svd(problem) else 1
    more = (sides - 1) * N * N + (5 + 2 * sides * _SAVED) * N if c.METHOD == "condensed" else 0
    return int(threads * c.LANES * real * (2 * words * N * N + N + more))
