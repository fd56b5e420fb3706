"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Range
from ...common.configs import OnCpu, piece, up
from ...common.vectors import bad_lanes, registers_of
from . import spec

_MOST_PARTS = 64  # pieces of K: as many threads find work
_PART_ROWS = 16  # rows of A per row of Y in a part: its sums are a small share of what it reads
_BLOCK_BYTES = 24 << 10  # of a block of rows: half of the first cache
_WIDEST_TILE = 8  # columns whose sums stay in registers; more share no loads


@dataclass(frozen=True)
class Simd(OnCpu):
    """Sums of 16 rows of Y and some columns in registers, over cache-resident blocks of rows."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # doubles per vector
    TILE: Annotated[int, Range(1, 16)] = 2  # columns whose sums stay in registers
    ROWS: Annotated[int, Range(8, 8192)] = 64  # rows per block


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    if reason := bad_lanes(c.LANES, 8, device):
        return reason
    if c.ROWS % spec.GROUPS:
        return f"ROWS={c.ROWS} is no multiple of {spec.GROUPS}"
    sums, most = c.TILE * (16 // c.LANES), registers_of(device)
    return f"{sums} vector sums, {most} registers" if sums + 16 // c.LANES > most else None


def default(problem: Problem, device: Device) -> Simd:
    """As many sums as registers hold, and blocks of half the first cache."""
    lanes = max(16, device.vector_bytes) // 8
    vectors = 16 // lanes
    tile = piece(reals(problem), max(1, min(_WIDEST_TILE, (registers_of(device) - vectors - 1) // vectors)))
    return Simd(lanes, tile, max(64, min(512, _BLOCK_BYTES // (8 * reals(problem)) // 64 * 64)))


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """Every legal configuration worth considering."""
    for lanes, tile, rows in product((2, 4, 8), (1, 2, 3, 4, 6, 8, 10), (64, 128, 256, 512)):
        config = Simd(lanes, tile, rows)
        if illegal(problem, config, device) is None:
            yield config


def reals(problem: Problem) -> int:
    """Real columns of A."""
    return int(problem.N * (2 if problem.is_complex else 1))


def parts(problem: Problem) -> int:
    """Pieces of K that threads sum independently: fixed by the problem alone, so that the result does not depend on
    the number of threads."""
    return max(1, min(_MOST_PARTS, int(problem.K) // (_PART_ROWS * spec.rows(problem.N))))


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """The sums of every part; and per thread a block of rows as doubles, its signs and turns."""
    numbers = c.ROWS * up(spec.signs(problem.N), 32) + c.ROWS // spec.GROUPS
    sums = parts(problem) * spec.rows(problem.N) * reals(problem)
    return int(8 * (sums + threads * (c.ROWS * reals(problem) + up(numbers, 2))))
