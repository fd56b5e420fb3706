"""The CPU half of the space: configurations of `simd`, their rules and their default. A chunk's product is spmv's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Range
from ...common.configs import OnCpu
from ..spmv import space_cpu as spmv_space
from ..spmv import spec as spmv_spec


@dataclass(frozen=True)
class Simd(OnCpu):
    """Vectors across the rows of a chunk; threads share every range of rows and wait for each other's counters."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 8  # reals per vector
    # cache level that the matrix to come is brought to; 0 leaves it to the hardware
    PREFETCH: Annotated[int, Range(0, 2)] = 0
    AHEAD: Annotated[int, Range(0, 1 << 20)] = 8192  # how far ahead, in bytes
    VGATHER: bool = False  # whether gather instructions fetch x


def product(problem: Problem) -> Problem:
    """One product of the powers, as spmv sees it."""
    return spmv_spec.problem(
        problem.dtype, problem.ROWS, problem.ROWS, problem.NNZ, values=problem.values, index=problem.index, C=problem.C,
        NVECS=problem.NVECS, ragged=problem.ragged,
    )  # fmt: skip


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    return spmv_space.illegal(product(problem), spmv_space.Simd(c.LANES, c.PREFETCH, c.AHEAD, c.VGATHER), device)


def default(problem: Problem, device: Device) -> Simd:
    """As for one product."""
    found = spmv_space.default(product(problem), device)
    return Simd(found.LANES, found.PREFETCH, found.AHEAD, found.VGATHER)


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """As for one product."""
    for found in spmv_space.candidates(product(problem), device):
        yield Simd(found.LANES, found.PREFETCH, found.AHEAD, found.VGATHER)
