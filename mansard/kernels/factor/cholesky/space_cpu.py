"""The CPU half of the space: configurations of `simd` and `rowwise`, their rules, their default, and the workspace they
need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import measured
from ...common.configs import OnCpu
from ...common.vectors import bad_lanes, registers_of, words_of

_ALONE = 32  # rows up to which a matrix does not mind lanes without one beside it
_LINE = 64  # bytes between rows that would share few sets of a cache
# Rows beyond which something else does better than a matrix per lane, whose vectors no longer stay in the second cache:
# of real matrices one after the other, of complex ones, which take twice as much, LAPACK.
_WIDEST, _WIDEST_COMPLEX = 128, 64
_WIDEST_ROWWISE = 512  # rows: 2 MiB of float64 numbers, beyond which LAPACK's blocks reuse a cache better


@dataclass(frozen=True)
class Simd(OnCpu):
    """A matrix per lane, tiles of the factor in registers; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector, matrices at a time
    TILE_M: int = 4  # rows of the factor per register tile
    TILE_N: int = 4  # columns per register tile
    GROUPS: int = 1  # of lanes, in turn: while one waits for a root, the other computes


@dataclass(frozen=True)
class Rowwise(OnCpu):
    """One matrix after the other, vectors along its rows; real numbers, any layout and stride."""

    VARIANT: ClassVar[str] = "rowwise"
    HEADER = "kernel_rowwise.hpp"
    LANES: int = 2  # reals per vector
    BLOCK: int = 32  # columns


Config: TypeAlias = Simd | Rowwise


def illegal(problem: Problem, c: Config, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    return _illegal_rowwise(problem, c, device) if isinstance(c, Rowwise) else _illegal_simd(problem, c, device)


def _illegal_rowwise(problem: Problem, c: Rowwise, device: Device) -> str | None:
    if problem.is_complex:
        return f"{problem.dtype}: only real matrices"
    most = widest_rowwise(problem, device)
    if most < problem.N:
        return f"{problem.N} rows: beyond {most} LAPACK does better than these vectors"
    if reason := bad_lanes(c.LANES, problem.itemsize, device):
        return reason
    return f"BLOCK={c.BLOCK} is no multiple of 4" if c.BLOCK < 4 or c.BLOCK % 4 else None


def _illegal_simd(problem: Problem, c: Simd, device: Device) -> str | None:
    words, real = words_of(problem)
    rows, most = problem.N, widest(problem, device)
    held, registers = words * c.TILE_M * c.TILE_N, registers_of(device)
    if rows > most:
        return f"{rows} rows: beyond {most} a matrix per core does better"
    if rows > _ALONE and 3 * problem.BATCH < c.LANES:
        return f"{problem.BATCH} matrices: most of {c.LANES} lanes would have none"
    if reason := bad_lanes(c.LANES, real, device):
        return reason
    if c.TILE_M not in (1, 2, 4, 8) or c.TILE_N not in (1, 2, 4, 8) or held > registers:
        return f"a tile of {c.TILE_M} x {c.TILE_N}: powers of two up to 8, {held} vectors, {registers} registers"
    if c.GROUPS not in (1, 2):
        return f"GROUPS={c.GROUPS}: 1 or 2 in turn"
    return None


def widest(problem: Problem, device: Device) -> int:
    """Rows beyond which something else does better: one matrix after the other, for complex numbers LAPACK."""
    if not problem.is_complex:
        return _WIDEST
    return measured.number("cholesky", device, "WIDEST_COMPLEX", _WIDEST_COMPLEX)


def widest_rowwise(problem: Problem, device: Device) -> int:
    """Rows beyond which LAPACK does better than one matrix after the other."""
    return measured.number("cholesky", device, "WIDEST_ROWWISE", _WIDEST_ROWWISE)


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Good configurations by the sizes alone, the best guess first."""
    yield simd(problem, device)
    yield rowwise(problem, device)


def default(problem: Problem, device: Device) -> Config:
    """The best guess that is legal."""
    found = list(ranked(problem, device))
    return next((config for config in found if illegal(problem, config, device) is None), found[-1])


def simd(problem: Problem, device: Device) -> Simd:
    """Whole vectors, and as square a tile as leaves room for its operands."""
    words, real = words_of(problem)
    room = registers_of(device) // 2 // words
    tile_m = 4 if room >= 8 else 2
    groups = measured.number("cholesky", device, "GROUPS", 1, rows=problem.N)
    return Simd(max(16, device.vector_bytes) // real, tile_m, max(1, min(4, room // tile_m)), groups)


def rowwise(problem: Problem, device: Device) -> Rowwise:
    """Whole vectors, and as many columns as the second cache holds with what stands before them."""
    return Rowwise(max(16, device.vector_bytes) // problem.itemsize)


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """The default and what lies around it."""
    first, lanes = default(problem, device), simd(problem, device).LANES
    tiles = product((lanes, lanes // 2), (8, 4, 2), (4, 2, 1), (1, 2))
    blocks = product((lanes, lanes // 2), (16, 32, 64))
    found: dict[Config, None] = dict.fromkeys((*(Simd(*choice) for choice in tiles), *(Rowwise(*c) for c in blocks)))
    found.pop(first, None)
    yield from (config for config in (*found, first) if illegal(problem, config, device) is None)


def workspace_bytes(problem: Problem, c: Config, threads: int) -> int:
    """For each thread the rows of a matrix and its right-hand sides; or the matrices of its groups, their right-hand
    sides, and a vector per column."""
    if isinstance(c, Rowwise):
        row = -(-problem.N // c.LANES) * c.LANES * problem.itemsize
        row += _LINE if row % 512 == 0 else 0
        return int(threads * -(-(problem.N + problem.NRHS) * row // 128) * 128)
    words, real = words_of(problem)
    pitch = problem.N | 1 if problem.N > 16 else problem.N
    return int(threads * c.GROUPS * c.LANES * real * (words * pitch * (problem.N + problem.NRHS) + problem.N))
