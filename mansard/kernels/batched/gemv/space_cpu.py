"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Range
from ...common.configs import OnCpu, power_below
from ...common.vectors import bad_lanes, registers_of, words_of
from ..gemm import runtime
from .spec import canonical

_CACHED_BYTES = 1 << 25  # of the matrices; less may still be in a cache when it is needed again
_LINE = 64  # bytes of a cache line


@dataclass(frozen=True)
class Simd(OnCpu):
    """Vectors along rows, or along columns where these are adjacent; a tile of sums in registers."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector
    TILE_M: int = 4  # rows (or vectors of adjacent rows) per register tile
    # cache level that matrices to come are brought to; 0 leaves it to the hardware
    PREFETCH: Annotated[int, Range(0, 2)] = 0
    AHEAD: Annotated[int, Range(0, 1 << 20)] = 2048  # how far ahead, in bytes


@dataclass(frozen=True)
class Runtime(runtime.Runtime):
    """The kernel of products whose sizes are arguments: vectors are matrices of one column."""

    HEADER = "../gemm/kernel_runtime.hpp"


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    words, real = words_of(problem)
    if problem.layout_a == "any":
        return "arbitrary strides are copied to rows first"
    if problem.stack_c == "shared":
        return "the vectors of y need a place each"
    if reason := bad_lanes(c.LANES, real, device, words):
        return reason
    registers = registers_of(device) - 2
    if not 1 <= c.TILE_M * words <= registers or c.TILE_M & (c.TILE_M - 1):
        return f"TILE_M={c.TILE_M} is no power of two, or {c.TILE_M * words} vector sums, about {registers} registers"
    return None


def default(problem: Problem, device: Device) -> Simd:
    """A good configuration by the sizes alone."""
    words, real = words_of(problem)
    canon = canonical(problem)
    rows_first = canon.layout_a == "row"
    reals = words * (problem.K if rows_first else problem.M)
    lanes = max(16, device.vector_bytes) // real
    while lanes // 2 >= reals and (lanes * real > 16 or device.vector_bytes == 16 or reals == 1):
        lanes //= 2  # x86 has no vectors of eight bytes, but masks
    most = (4 if device.vector_bytes == 32 else 8) * (1 if rows_first else 2) // words  # whole columns, if possible
    tile = min(most, power_below(problem.M if rows_first else -(-reals // lanes)))
    matrix = problem.M * problem.K * problem.itemsize
    large = problem.BATCH * matrix >= _CACHED_BYTES and problem.stack_a == "packed"
    return Simd(lanes, tile, 1 if large else 0, 2048 if matrix <= 4096 else 4096)


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """The default and what lies around it."""
    first = default(problem, device)
    lanes = sorted({first.LANES, 2 * first.LANES, first.LANES // 2})
    fetches = dict.fromkeys(((first.PREFETCH, first.AHEAD), (0, 2048), (1, 1024), (1, 4096), (2, 8192)))
    for width, tile, (prefetch, ahead) in product(lanes, (1, 2, 4, 8, 16), fetches):
        config = Simd(width, tile, prefetch, ahead)
        if illegal(problem, config, device) is None and config != first:
            yield config
    yield first


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """For each thread a vector x whose entries are adjacent."""
    unit = canonical(problem).layout_b == "col"
    return 0 if unit else threads * (-(-problem.K * problem.itemsize // _LINE) * _LINE)
