"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common.configs import OnCpu, up
from ...common.vectors import bad_lanes, registers_of, words_of

_LINE = 64  # bytes of a cache line
_BESIDE_SUMS = 8  # vector registers for columns and entries of the factors
_MOST_ROWS = 8  # rows of a tile: of more, tiles on the diagonal compute too much for nothing


@dataclass(frozen=True)
class Simd(OnCpu):
    """Packed factors, a tile of the triangle in registers, lanes along the columns of C."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector
    TILE_M: int = 4  # rows of C per register tile
    TILE_N: int = 1  # vectors of its columns per register tile


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    words, real = words_of(problem)
    if problem.stack_c == "shared":
        return "the matrices of C need a place each"
    if reason := bad_lanes(c.LANES, real, device):
        return reason
    if c.TILE_M * c.TILE_N * words > registers_of(device) - 2:
        return f"{c.TILE_M * c.TILE_N * words} vector sums, about {registers_of(device)} registers"
    return None


def default(problem: Problem, device: Device) -> Simd:
    """A good configuration by the sizes alone: whole rows in few vectors, as many rows as registers have room for."""
    words, real = words_of(problem)
    lanes = max(16, device.vector_bytes) // real
    while lanes // 2 >= problem.N and lanes * real > 16:
        lanes //= 2
    tile_n = min(2, up(problem.N, lanes))
    most = (registers_of(device) - _BESIDE_SUMS) // (tile_n * words)
    return Simd(lanes, max(1, min(problem.N, _MOST_ROWS, most)), tile_n)


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """The default and what lies around it."""
    first = default(problem, device)
    lanes = sorted({first.LANES, max(2, first.LANES // 2)})
    for width, tile_m, tile_n in product(lanes, (1, 2, 3, 4, 6, 8), (1, 2, 3)):
        config = Simd(width, tile_m, tile_n)
        if tile_m <= problem.N and illegal(problem, config, device) is None and config != first:
            yield config
    yield first


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """For each thread the packed factors and the triangle."""
    words, real = words_of(problem)
    rows = up(problem.N, c.TILE_M) * c.TILE_M
    columns = up(problem.N, c.TILE_N * c.LANES) * c.TILE_N * c.LANES
    pitch = up(max(rows, columns) * real, _LINE) * _LINE
    return int(threads * words * pitch * ((2 if problem.two else 1) * problem.K + rows))
