"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from ...codegen.geometry import Device
from ...plan.problem import Problem

WANTS = ("factor", "solve", "inverse", "determinant", "logdet")
_ALONE = 32  # columns up to which a matrix does not mind lanes without one beside it
_TALLEST = 1024  # rows have numbers below it
_ONE_PANEL = 16  # columns of a matrix that stays in the first cache as a whole


@dataclass(frozen=True)
class Simd:
    """A matrix per lane, whose rows stay where they are; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector, matrices at a time
    PANEL: int = 8  # columns that are factored before those after them are touched
    TILE_N: int = 4  # columns whose entries of a pivot row stay in registers
    STEPS: int = 4  # steps applied together to a panel that comes later


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    words, real = _words(problem)
    rows, columns, most = problem.M, problem.N, widest(problem, device)
    held, registers = words * (c.TILE_N * c.STEPS + c.TILE_N), _registers(device)
    if problem.want not in WANTS:
        return f"want={problem.want!r} is not one of {', '.join(WANTS)}"
    if columns > most or rows * columns > most**2 or rows >= _TALLEST:
        return f"{rows} x {columns}: beyond order {most} a matrix per core does better"
    if columns > _ALONE and 3 * problem.BATCH < c.LANES:
        return f"{problem.BATCH} matrices: most of {c.LANES} lanes would have none"
    if c.LANES < 2 or c.LANES & (c.LANES - 1) or c.LANES * real > max(device.vector_bytes, 16):
        return f"LANES={c.LANES} is no power of two that fits {device.vector_bytes}-byte vectors"
    if c.PANEL < 1 or {c.TILE_N, c.STEPS} - {1, 2, 4, 8} or held > registers:
        return f"TILE_N={c.TILE_N}, STEPS={c.STEPS}: powers of two up to 8, {held} vectors, {registers} registers"
    return None


def widest(problem: Problem, device: Device) -> int:
    """Rows or columns beyond which LAPACK, a matrix per core, does better."""
    return 96 if device.vector_bytes == 64 and not problem.is_complex and problem.want != "inverse" else 64


def default(problem: Problem, device: Device) -> Simd:
    """A good configuration by the sizes alone: whole vectors, one panel where the first cache holds everything."""
    words, real = _words(problem)
    columns = problem.N + right(problem)
    panel = columns if columns <= _ONE_PANEL + 1 else 8
    tight = _registers(device) < 32 * words
    return Simd(max(16, device.vector_bytes) // real, panel, 2 if tight else 4, 2 if _registers(device) == 16 else 4)


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """The default and what lies around it."""
    first = default(problem, device)
    panels = dict.fromkeys((first.PANEL, 4, 8, 16))
    for lanes, panel, tile_n, steps in product((first.LANES, first.LANES // 2), panels, (4, 2, 8), (4, 2)):
        config = Simd(lanes, panel, tile_n, steps)
        if config != first and illegal(problem, config, device) is None:
            yield config
    if illegal(problem, first, device) is None:
        yield first


def right(problem: Problem) -> int:
    """Columns beside those of A."""
    return int({"solve": problem.NRHS, "inverse": problem.N}.get(problem.want, 0))


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """For each thread the matrices of a group, its multipliers, U where it is solved with, and some vectors per row."""
    words, real = _words(problem)
    M, N = problem.M, problem.N
    pitch, steps, columns = M | 1 if M > 16 else M, min(M, N), N + right(problem)
    numbers = pitch * (columns * (2 if columns > N else 1) + (steps if columns > c.PANEL else 1))
    return int(threads * c.LANES * real * (words * numbers + 2 * M + steps))


def _registers(device: Device) -> int:
    """Vector registers; 32-byte vectors have half as many as the others."""
    return 16 if device.vector_bytes == 32 else 32


def _words(problem: Problem) -> tuple[int, int]:
    """Real words per element, bytes per real word."""
    words = 2 if problem.is_complex else 1
    return words, problem.itemsize // words
