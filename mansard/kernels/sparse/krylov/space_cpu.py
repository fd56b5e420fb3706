"""The CPU half of the space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Range
from ...common.configs import OnCpu, up
from . import spec

RUN = 1024  # words of a run, whatever the vectors: 16 additions of each of 4 chains of up to 16 lanes


@dataclass(frozen=True)
class Simd(OnCpu):
    """Threads take parts of the vectors."""

    VARIANT: ClassVar[str] = "simd"
    PART: Annotated[int, Range(RUN, 1 << 24)] = 8192  # words that a thread takes at a time


@dataclass(frozen=True)
class SimdMinres(OnCpu):
    """Threads take parts of the vectors, for the passes of the minimal residual method."""

    VARIANT: ClassVar[str] = "simd_minres"
    HEADER = "minres.hpp"
    PART: Annotated[int, Range(RUN, 1 << 24)] = 8192  # words that a thread takes at a time


def kind_for(problem: Problem) -> type[Simd | SimdMinres]:
    """The variant that has the passes of the problem's solver."""
    return SimdMinres if problem.solver == "minres" else Simd


def illegal(problem: Problem, c: Simd | SimdMinres, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    if not isinstance(c, kind_for(problem)):
        return f"{c.VARIANT} has no passes of {problem.solver}"
    return f"PART={c.PART} is no multiple of {RUN}" if c.PART % RUN else None


def candidates(problem: Problem, device: Device) -> Iterator[Simd | SimdMinres]:
    """Every legal configuration worth considering."""
    for part in (4096, 8192, 16384, 65536):
        if illegal(problem, kind_for(problem)(part), device) is None:
            yield kind_for(problem)(part)


def workspace_bytes(problem: Problem, c: Simd | SimdMinres, threads: int) -> int:
    """Two sums of every part."""
    return 16 * up(spec.words(problem), c.PART)
