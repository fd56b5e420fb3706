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


@dataclass(frozen=True)
class Ragged(OnCpu):
    """A matrix per lane, each of its own size: one kernel for all sizes, by condensed forms."""

    VARIANT: ClassVar[str] = "ragged"
    HEADER = "kernel_ragged.hpp"
    LANES: int = 4  # reals per vector, matrices at a time
    SWEEPS: int = 30  # steps per row after which a matrix counts as not converged


def illegal(problem: Problem, c: Simd | Ragged, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    if reason := spec.refusal(problem) or spec.too_large(problem, spec.largest_on_cpu(problem)):
        return reason
    if isinstance(c, Ragged) != (problem.stack_a == "ragged"):
        return f"{c.VARIANT}: stack_a={problem.stack_a!r}, where `ragged` takes ragged batches and nothing else"
    if isinstance(c, Ragged):
        reason = None if spec.takes_any_method(problem) else "ragged: by way of method=any (Jacobi's was asked for)"
        return reason or bad_lanes(c.LANES, words_of(problem)[1], device)
    if c.METHOD == "condensed" and not spec.takes_any_method(problem):
        return "METHOD=condensed: by way of method=any (Jacobi's was asked for)"
    return bad_lanes(c.LANES, words_of(problem)[1], device)


_CONDENSED_FROM = 12  # rows from which a reduction and its iteration take fewer operations than sweeps of Jacobi's do


def ranked(problem: Problem, device: Device) -> Iterator[Simd | Ragged]:
    """Whole vectors."""
    lanes = max(16, device.vector_bytes) // words_of(problem)[1]
    if problem.stack_a == "ragged":
        yield Ragged(lanes)
        return
    least = measured.number("jacobi", device, "CONDENSED_FROM", _CONDENSED_FROM)
    if least <= problem.N and spec.takes_any_method(problem):
        yield Simd(lanes, METHOD="condensed")
    yield Simd(lanes)


def candidates(problem: Problem, device: Device) -> Iterator[Simd | Ragged]:
    """Whole vectors, and half of them, by both methods."""
    lanes = max(16, device.vector_bytes) // words_of(problem)[1]
    if problem.stack_a == "ragged":
        yield from (c for c in map(Ragged, (lanes // 2, lanes)) if illegal(problem, c, device) is None)
        return
    every = (Simd(count, METHOD=method) for count in (lanes // 2, lanes) for method in ("jacobi", "condensed"))
    yield from (c for c in every if illegal(problem, c, device) is None)


_SAVED = 4  # steps whose rotations wait for the vectors (condensed.hpp)


def workspace_bytes(problem: Problem, c: Simd | Ragged, threads: int) -> int:
    """For each thread A, V and W of the matrices of a group; what the condensed method adds."""
    words, real = words_of(problem)
    N = problem.N
    sides = 2 if spec.is_svd(problem) else 1
    more = ((sides - 1) * N + 3) * N * words + (2 + 2 * sides * _SAVED) * N
    is_condensed = isinstance(c, Ragged) or c.METHOD == "condensed"
    return int(threads * c.LANES * real * (2 * words * N * N + N + (more if is_condensed else 0)))
