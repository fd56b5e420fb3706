"""The CPU half of the space: configurations of `simd`, their rules and their default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import ITEMSIZE, Problem
from ....rules import Range
from ...common import measured
from ...common.configs import OnCpu
from ...common.vectors import bad_lanes, words_of
from .spec import INDEX_BYTES

_CACHED_BYTES = 1 << 20  # bytes of the matrix; less is in the second cache when it is needed again
_AHEAD = 8192  # bytes that a prefetch runs ahead of the matrix, two pages: what a core reads while memory answers


@dataclass(frozen=True)
class Simd(OnCpu):
    """Vectors across the rows of a chunk, or along the columns of X where there are several; threads by entries."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 8  # reals per vector
    # cache level that the matrix to come is brought to; 0 leaves it to the hardware
    PREFETCH: Annotated[int, Range(0, 2)] = 0
    AHEAD: Annotated[int, Range(0, 1 << 20)] = 8192  # how far ahead, in bytes
    # whether gather instructions fetch x; many cores take longer for one than for a load per lane, some by microcode
    VGATHER: bool = False


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    words, real = words_of(problem)
    if words > c.LANES or (is_across(problem) and problem.C % c.LANES):
        return f"LANES={c.LANES} does not divide chunks of {problem.C} rows, or holds no complex number"
    if reason := bad_lanes(c.LANES, real, device, 1):
        return reason
    if c.PREFETCH not in (0, 1, 2):
        return f"PREFETCH={c.PREFETCH} is no level of the caches"
    return None


def default(problem: Problem, device: Device) -> Simd:
    """As many lanes as there are rows in a chunk, or columns of X."""
    words, real = words_of(problem)
    lanes = max(16, device.vector_bytes) // real
    most = problem.C if is_across(problem) else words * problem.NVECS
    while lanes > 1 and lanes > most:
        lanes //= 2
    cached = problem.NNZ * (ITEMSIZE[problem.values] + INDEX_BYTES[problem.index]) <= _CACHED_BYTES
    gather = bool(measured.number("spmv", device, "VGATHER", 0))
    return Simd(lanes, 0 if cached else 1, measured.number("spmv", device, "AHEAD", _AHEAD), gather)


def is_across(problem: Problem) -> bool:
    """Whether lanes are rows of a chunk; else they are columns of X."""
    return bool(problem.NVECS == 1 and not problem.is_complex and problem.format != "csr")


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """The default and what lies around it."""
    first = default(problem, device)
    for lanes in (first.LANES, first.LANES // 2, 2 * first.LANES):
        for prefetch, ahead in ((0, 8192), (1, 2048), (1, 4096), (1, 8192), (1, 16384), (2, 16384)):
            for gather in (False, True) if is_across(problem) else (False,):
                config = Simd(max(1, lanes), prefetch, ahead, gather)
                if illegal(problem, config, device) is None:
                    yield config
