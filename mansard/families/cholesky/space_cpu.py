"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from ...codegen.geometry import Device
from ...plan.problem import Problem

_ALONE = 32  # rows up to which a matrix does not mind lanes without one beside it


@dataclass(frozen=True)
class Simd:
    """A matrix per lane, tiles of the factor in registers; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector, matrices at a time
    TILE_M: int = 4  # rows of the factor per register tile
    TILE_N: int = 4  # columns per register tile
    GROUPS: int = 1  # of lanes, in turn: while one waits for a root, the other computes


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    words, real = _words(problem)
    rows, most = problem.N, widest(problem, device)
    held, registers = words * c.TILE_M * c.TILE_N, _registers(device)
    if rows > most:
        return f"{rows} rows: beyond {most} a matrix per core does better"
    if rows > _ALONE and 3 * problem.BATCH < c.LANES:
        return f"{problem.BATCH} matrices: most of {c.LANES} lanes would have none"
    if c.LANES < 2 or c.LANES & (c.LANES - 1) or c.LANES * real > max(device.vector_bytes, 16):
        return f"LANES={c.LANES} is no power of two that fits {device.vector_bytes}-byte vectors"
    if c.TILE_M not in (1, 2, 4, 8) or c.TILE_N not in (1, 2, 4, 8) or held > registers:
        return f"a tile of {c.TILE_M} x {c.TILE_N}: powers of two up to 8, {held} vectors, {registers} registers"
    if c.GROUPS not in (1, 2):
        return f"GROUPS={c.GROUPS}: 1 or 2 in turn"
    return None


def widest(problem: Problem, device: Device) -> int:
    """Rows or columns beyond which LAPACK, a matrix per core, does better. On short vectors complex ones go on, too:
    from 65 to 128 rows they took a third of LAPACK's time or less."""
    return 64 if problem.is_complex and device.vector_bytes > 16 else 128


def default(problem: Problem, device: Device) -> Simd:
    """A good configuration by the sizes alone: whole vectors, and as square a tile as leaves room for its operands."""
    words, real = _words(problem)
    room = _registers(device) // 2 // words
    tile_m = 4 if room >= 8 else 2
    groups = 2 if device.vector_bytes <= 16 and problem.N <= 64 else 1  # longer vectors have not been measured
    return Simd(max(16, device.vector_bytes) // real, tile_m, max(1, min(4, room // tile_m)), groups)


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """The default and what lies around it."""
    first = default(problem, device)
    for lanes, tile_m, tile_n, groups in product((first.LANES, first.LANES // 2), (8, 4, 2), (4, 2, 1), (1, 2)):
        config = Simd(lanes, tile_m, tile_n, groups)
        if config != first and illegal(problem, config, device) is None:
            yield config
    if illegal(problem, first, device) is None:
        yield first


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """For each thread the matrices of its groups, their right-hand sides, and a vector per column."""
    words, real = _words(problem)
    pitch = problem.N | 1 if problem.N > 16 else problem.N
    return int(threads * c.GROUPS * c.LANES * real * (words * pitch * (problem.N + problem.NRHS) + problem.N))


def _registers(device: Device) -> int:
    """Vector registers; 32-byte vectors have half as many as the others."""
    return 16 if device.vector_bytes == 32 else 32


def _words(problem: Problem) -> tuple[int, int]:
    """Real words per element, bytes per real word."""
    words = 2 if problem.is_complex else 1
    return words, problem.itemsize // words
