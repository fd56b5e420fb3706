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

WANTS = ("factor", "solve", "inverse", "determinant", "logdet")
_ALONE = 32  # columns up to which a matrix does not mind lanes without one beside it
_MOST_EXCHANGED = 1 << 15  # rows whose order takes 128 KiB of a thread's stack
_TALLEST = 1024  # rows have numbers below it
_WIDEST = 64  # columns beyond which one matrix after the other does better, for complex numbers LAPACK
_LINE = 64  # bytes between rows that would share few sets of a cache
_ONE_PANEL = 16  # columns of a matrix that stays in the first cache as a whole
_WIDEST_ROWWISE = 512  # rows or columns: 2 MiB of float64 numbers, beyond which LAPACK's blocks reuse a cache better
_FILLS = 40  # tenths: a matrix per lane may take four times all registers; more of it still wins, but compiles long


@dataclass(frozen=True)
class Simd(OnCpu):
    """A matrix per lane, whose rows stay where they are; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector, matrices at a time
    PANEL: int = 8  # columns that are factored before those after them are touched
    TILE_N: int = 4  # columns whose entries of a pivot row stay in registers
    STEPS: int = 4  # steps applied together to a panel that comes later


@dataclass(frozen=True)
class Rowwise(OnCpu):
    """One matrix after the other, vectors along its rows; real numbers, any layout and stride."""

    VARIANT: ClassVar[str] = "rowwise"
    HEADER = "kernel_rowwise.hpp"
    LANES: int = 2  # reals per vector
    TILE_N: int = 16  # vectors of a pivot row that stay in registers
    MATRICES: int = 1  # in turn, so that one computes while the other waits


@dataclass(frozen=True)
class Small(OnCpu):
    """A matrix per lane, in registers, whose rows are exchanged; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "small"
    HEADER = "kernel_small.hpp"
    LANES: int = 2  # reals per vector, matrices at a time


@dataclass(frozen=True)
class Exchanges(OnCpu):
    """Only exchanges of rows, one matrix after the other; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "exchanges"
    HEADER = "kernel_exchanges.hpp"


Config: TypeAlias = Simd | Rowwise | Small | Exchanges


def illegal(problem: Problem, c: Config, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    if (problem.want == "swap") != isinstance(c, Exchanges):
        return f"{c.VARIANT} is not what exchanges rows, or does nothing else"
    if isinstance(c, Exchanges):
        return f"{problem.M} rows: their order is kept on the stack" if problem.M > _MOST_EXCHANGED else None
    if isinstance(c, Small):
        return _illegal_small(problem, c, device)
    return _illegal_rowwise(problem, c, device) if isinstance(c, Rowwise) else _illegal_simd(problem, c, device)


def _illegal_small(problem: Problem, c: Small, device: Device) -> str | None:
    real = words_of(problem)[1]
    if problem.want not in ("factor", "solve", "inverse"):
        return f"want={problem.want!r}: only factor, solve and inverse"
    if 10 * _vectors(problem) > measured.number("lu", device, "FILLS", _FILLS) * registers_of(device):
        return f"{problem.M} x {problem.N}: four or five times as many vectors as there are registers"
    if reason := bad_lanes(c.LANES, real, device):
        return reason
    return None


def _vectors(problem: Problem) -> int:
    """Vectors that a matrix per lane takes, with what stands beside it."""
    return int(words_of(problem)[0] * problem.M * (problem.N + right(problem)))


def _illegal_rowwise(problem: Problem, c: Rowwise, device: Device) -> str | None:
    if problem.is_complex or problem.want not in WANTS:
        return f"{problem.dtype}, want={problem.want!r}: only real matrices, and {', '.join(WANTS)}"
    most = widest_rowwise(problem, device)
    if most < problem.N or 2 * most < problem.M:
        return f"{problem.M} x {problem.N}: beyond order {most} LAPACK does better than these vectors"
    if reason := bad_lanes(c.LANES, problem.itemsize, device):
        return reason
    if c.MATRICES not in (1, 2, 4):
        return f"MATRICES={c.MATRICES}: 1, 2 or 4 at a time"
    if not 1 <= c.TILE_N <= registers_of(device) - 8:
        return f"TILE_N={c.TILE_N}: vectors for {registers_of(device)} registers, of which others need eight"
    return None


def _illegal_simd(problem: Problem, c: Simd, device: Device) -> str | None:
    words, real = words_of(problem)
    rows, columns = problem.M, problem.N
    held, registers = words * (c.TILE_N * c.STEPS + c.TILE_N), registers_of(device)
    if problem.want not in WANTS:
        return f"want={problem.want!r} is not one of {', '.join(WANTS)}"
    if columns > _WIDEST or rows * columns > _WIDEST**2 or rows >= _TALLEST:
        return f"{rows} x {columns}: beyond order {_WIDEST} a matrix per core does better"
    if columns > _ALONE and 3 * problem.BATCH < c.LANES:
        return f"{problem.BATCH} matrices: most of {c.LANES} lanes would have none"
    if reason := bad_lanes(c.LANES, real, device):
        return reason
    if c.PANEL < 1 or {c.TILE_N, c.STEPS} - {1, 2, 4, 8} or held > registers:
        return f"TILE_N={c.TILE_N}, STEPS={c.STEPS}: powers of two up to 8, {held} vectors, {registers} registers"
    return None


def widest_rowwise(problem: Problem, device: Device) -> int:
    """Rows or columns beyond which LAPACK does better than one matrix after the other."""
    name = "WIDEST_INVERSE" if problem.want == "inverse" else "WIDEST_ROWWISE"
    return measured.number("lu", device, name, _WIDEST_ROWWISE)


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Good configurations by the sizes alone, the best guess first."""
    if problem.want == "swap":
        yield Exchanges()
        return
    if _suits_small(problem, device):
        yield small(problem, device)
    if _suits_rowwise(problem, device):
        yield rowwise(problem, device)
    yield simd(problem, device)
    yield rowwise(problem, device)


def _suits_small(problem: Problem, device: Device) -> bool:
    """Whether a sweep found a matrix in registers faster than one whose rows stay where they are."""
    double = int(problem.dtype == "float64")
    return bool(measured.number("lu", device, "SMALL", 0, double=double, vectors=_vectors(problem)))


def _suits_rowwise(problem: Problem, device: Device) -> bool:
    """Whether one matrix after the other beats a matrix per lane: with vectors of 16 bytes, since two or four lanes do
    not make up for rows that all of them eliminate; with longer ones where a sweep found it."""
    sizes = {"double": int(problem.dtype == "float64"), "square": int(problem.M == problem.N)}
    name, rule = f"ROWWISE_{problem.want.upper()}", int(device.vector_bytes <= 16)
    return bool(measured.number("lu", device, name, rule, order=problem.N, right=problem.NRHS, **sizes))


def small(problem: Problem, device: Device) -> Small:
    return Small(max(16, device.vector_bytes) // words_of(problem)[1])


def rowwise(problem: Problem, device: Device) -> Rowwise:
    several = max(problem.M, problem.N) <= 10 and right(problem) <= 1  # longer rows keep a core busy
    lanes = max(16, device.vector_bytes) // problem.itemsize
    return Rowwise(lanes, 16 if registers_of(device) == 32 else 8, 2 if several else 1)


def simd(problem: Problem, device: Device) -> Simd:
    """Whole vectors, one panel where the first cache holds everything."""
    words, real = words_of(problem)
    columns = problem.N + right(problem)
    panel = columns if columns <= _ONE_PANEL + 1 else 8
    tight = registers_of(device) < 32 * words
    return Simd(max(16, device.vector_bytes) // real, panel, 2 if tight else 4, 2 if registers_of(device) == 16 else 4)


def default(problem: Problem, device: Device) -> Config:
    """The best guess that is legal."""
    found = list(ranked(problem, device))
    return next((config for config in found if illegal(problem, config, device) is None), found[-1])


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """The default and what lies around it."""
    first = default(problem, device)
    if isinstance(first, Exchanges):
        yield first
        return
    found = dict.fromkeys(
        (*_candidates(problem, device), simd(problem, device), rowwise(problem, device), small(problem, device))
    )
    found.pop(first, None)
    yield from (config for config in (*found, first) if illegal(problem, config, device) is None)


def _candidates(problem: Problem, device: Device) -> Iterator[Config]:
    row, first = rowwise(problem, device), simd(problem, device)
    for lanes, tile_n, matrices in product((row.LANES, row.LANES // 2), (row.TILE_N, 8, 4), (1, 2)):
        yield Rowwise(lanes, tile_n, matrices)
    panels = dict.fromkeys((first.PANEL, 4, 8, 16))
    for lanes, panel, tile_n, steps in product((first.LANES, first.LANES // 2), panels, (4, 2, 8), (4, 2)):
        yield Simd(lanes, panel, tile_n, steps)


def right(problem: Problem) -> int:
    """Columns beside those of A."""
    return int({"solve": problem.NRHS, "inverse": problem.N}.get(problem.want, 0))


def workspace_bytes(problem: Problem, c: Config, threads: int) -> int:
    """For each thread the rows of a matrix and of its right-hand sides, or what lanes need."""
    if isinstance(c, Exchanges):
        return 0
    if isinstance(c, Small):
        c = Simd(c.LANES, problem.N + right(problem), 1, 1)
    if isinstance(c, Simd):
        return _bytes_of_lanes(problem, c, threads)
    beside, lanes = right(problem), c.LANES
    columns = problem.N + beside if beside <= 1 else -(-problem.N // lanes) * lanes + beside
    row = -(-columns // lanes) * lanes * problem.itemsize
    row += _LINE if problem.M > 64 and row % 512 == 0 else 0
    return int(threads * c.MATRICES * -(-problem.M * row // 128) * 128)


def _bytes_of_lanes(problem: Problem, c: Simd, threads: int) -> int:
    """For each thread the matrices of a group, its multipliers, U where it is solved with, and some vectors per row."""
    words, real = words_of(problem)
    M, N = problem.M, problem.N
    pitch, steps, columns = M | 1 if M > 16 else M, min(M, N), N + right(problem)
    numbers = pitch * (columns * (2 if columns > N else 1) + (steps if columns > c.PANEL else 1))
    return int(threads * c.LANES * real * (words * numbers + 2 * M + steps))
