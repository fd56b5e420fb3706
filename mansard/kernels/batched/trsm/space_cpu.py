"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common.configs import OnCpu
from ...common.vectors import bad_lanes, registers_of, words_of

_LINE = 64  # bytes of a cache line
_WIDEST_ACROSS = 64  # beyond it the matrices of a group do not fit into a cache together


@dataclass(frozen=True)
class Simd(OnCpu):
    """Tiles of X in registers; lanes along the columns of X, or across matrices."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector
    TILE_M: int = 4  # rows of X per register tile
    TILE_N: int = 2  # vectors of columns per register tile; columns, where lanes run across matrices
    ACROSS: bool = False  # each lane has a matrix of its own


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    words, real = words_of(problem)
    sums, registers = c.TILE_M * c.TILE_N * words, registers_of(device) - 2
    if problem.stack_x == "shared":
        return "the matrices of X need a place each"
    if reason := bad_lanes(c.LANES, real, device):
        return reason
    if min(c.TILE_M, c.TILE_N) < 1 or sums > registers:
        return f"{sums} vectors of X, about {registers} registers"
    if c.ACROSS and (problem.N > _WIDEST_ACROSS or words == c.LANES):
        return f"ACROSS: at most {_WIDEST_ACROSS} rows, and several matrices per vector"
    return None


def default(problem: Problem, device: Device) -> Simd:
    """A good configuration by the sizes alone: across matrices where columns would leave half of the lanes empty."""
    words, real = words_of(problem)
    lanes = max(16, device.vector_bytes) // real
    limit = registers_of(device) - (4 if device.vector_bytes == 32 else 8)
    across = problem.N <= _WIDEST_ACROSS and lanes > words and 2 * problem.NRHS * words <= lanes
    across = across and 4 * problem.BATCH * words > lanes  # else most lanes would have no matrix
    if not across:
        while lanes // 2 >= max(2, words * problem.NRHS) and lanes * real > 16:
            lanes //= 2
    vectors = problem.NRHS if across else -(-words * problem.NRHS // lanes)
    tile_n = -(-vectors // -(-vectors // 2))
    return Simd(lanes, max(1, min(problem.N, 8 if across else 6, limit // (2 * tile_n * words))), tile_n, across)


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """The default and what lies around it."""
    first = default(problem, device)
    full = max(16, device.vector_bytes) // words_of(problem)[1]
    for lanes, across in dict.fromkeys(((first.LANES, first.ACROSS), (full, False), (full // 2, False), (full, True))):
        for tile_m, tile_n in product((1, 2, 4, 6, 8, 12), (1, 2, 3, 4)):
            config = Simd(lanes, tile_m, tile_n, across)
            if tile_m <= problem.N and illegal(problem, config, device) is None and config != first:
                yield config
    yield first


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """For each thread the rows of X, and the matrices of a group where lanes run across them."""
    words, real = words_of(problem)
    vectors = problem.NRHS if c.ACROSS else -(-problem.NRHS * words // c.LANES)
    of_x, of_a = problem.N * vectors * c.LANES * real, c.ACROSS * problem.N**2 * c.LANES * real
    return int(threads * (-(-of_x // _LINE) + -(-of_a // _LINE)) * _LINE)
