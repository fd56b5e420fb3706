"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import measured
from ...common.configs import OnCpu
from ...common.vectors import bad_lanes, registers_of, words_of

WANTS = ("raw", "r", "reduced", "complete", "solve")
_ALONE = 32  # columns up to which a matrix does not mind lanes without one beside it
# Rows or columns beyond which LAPACK, a matrix per core, does better: a matrix per lane leaves the second cache, and
# complex ones are twice as large and take four times the multiplications.
_WIDEST, _WIDEST_COMPLEX = 256, 64


@dataclass(frozen=True)
class Simd(OnCpu):
    """A matrix per lane, reflections applied to tiles of columns; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector, matrices at a time
    TILE_N: int = 4  # columns to which reflections are applied together


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    words, real = words_of(problem)
    rows, columns, most = problem.M, problem.N, widest(problem, device)
    held, registers = 2 * words * c.TILE_N, registers_of(device)
    if problem.want not in WANTS:
        return f"want={problem.want!r} is not one of {', '.join(WANTS)}"
    if columns > most or rows * columns > most**2:
        return f"{rows} x {columns}: beyond order {most} a matrix per core does better than these vectors"
    if columns > _ALONE and 3 * problem.BATCH < c.LANES:
        return f"{problem.BATCH} matrices: most of {c.LANES} lanes would have none"
    if reason := bad_lanes(c.LANES, real, device):
        return reason
    if c.TILE_N not in (1, 2, 4, 8) or held > registers:
        return f"TILE_N={c.TILE_N} is no power of two up to 8, or {held} vectors do not fit {registers} registers"
    return None


def widest(problem: Problem, device: Device) -> int:
    """Rows or columns beyond which LAPACK, a matrix per core, does better."""
    if problem.is_complex:
        return measured.number("qr", device, "WIDEST_COMPLEX", _WIDEST_COMPLEX)
    return measured.number("qr", device, "WIDEST", _WIDEST)


def default(problem: Problem, device: Device) -> Simd:
    """A good configuration by the sizes alone: whole vectors, as many columns as leave room for their operands."""
    words, real = words_of(problem)
    return Simd(max(16, device.vector_bytes) // real, 4 if registers_of(device) > 16 * words else 2)


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """The default and what lies around it."""
    first = default(problem, device)
    for lanes, tile_n in product((first.LANES, first.LANES // 2), (8, 4, 2, 1)):
        config = Simd(lanes, tile_n)
        if config != first and illegal(problem, config, device) is None:
            yield config
    if illegal(problem, first, device) is None:
        yield first


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """For each thread the matrices of a group, right-hand sides or Q, and two numbers per reflection."""
    words, real = words_of(problem)
    M, N = problem.M, problem.N
    pitch, steps = M | 1 if M > 16 else M, min(M, N)
    columns = N + {"solve": problem.NRHS, "reduced": steps, "complete": M}.get(problem.want, 0)
    return int(threads * c.LANES * real * words * (pitch * columns + 2 * steps))
