"""The GPU configurations of `gemv`: what each parameter means, what is legal, and what is worth considering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from ...common.configs import OnGpu, up
from ..gemm import runtime
from . import shapes, space_cpu, work
from .space_cpu import Runtime, Simd
from .spec import canonical

_POWERS = (1, 2, 4, 8, 16, 32)  # lanes of a team: what divides a warp
STAGE_BYTES = 48 << 10  # bytes that a warp may stage: more leaves room for too few warps


@dataclass(frozen=True)
class Lanes(OnGpu):
    """A few lanes of a warp per matrix, groups of matrices through shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "lanes"
    LANES_M: int = 2  # lanes along the rows of a matrix
    LANES_N: int = 2  # and along its columns
    PER_TEAM: int = 1  # matrices of a group per team of lanes
    STAGES: int = 1  # groups under way per warp; 1: warps come and go
    WARPS: int = 4  # per block
    BLOCKS_PER_SM: int = 2


@dataclass(frozen=True)
class Stream(OnGpu):
    """Warps that load matrices, or rows of them, straight into registers; any dtype, layout, stride and size."""

    VARIANT: ClassVar[str] = "stream"
    LANES_M: int = 1  # the lanes of a warp along the rows of a matrix
    LANES_N: int = 32  # and along its columns
    TILE_M: int = 8  # rows (or runs of adjacent rows, where columns are adjacent) per lane
    UNROLL: int = 2  # steps along the columns that are loaded before they are used
    WARPS_M: int = 1  # warps of a team along the rows
    WARPS_N: int = 1  # and along the columns
    PER_BLOCK: int = 4  # teams per block
    BLOCKS_PER_SM: int = 2


Gpu: TypeAlias = Lanes | Stream
Config: TypeAlias = Gpu | Simd | Runtime
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Lanes, Stream, Simd, Runtime)}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "gemv", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if isinstance(config, Runtime):
        return configs.elsewhere(config, device) or runtime.illegal(problem)
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    if problem.stack_c == "shared":
        return "the vectors of y need a place each"
    reason = _lanes(config) if isinstance(config, Lanes) else _stream(config)
    return reason or configs.too_large(work, problem, config, device)


def _lanes(c: Lanes) -> str | None:
    if min(c.LANES_M, c.LANES_N, c.PER_TEAM, c.STAGES, c.WARPS) < 1 or 32 % (c.LANES_M * c.LANES_N):
        return f"a team of {c.LANES_M} x {c.LANES_N} lanes does not divide a warp, or a count is not positive"
    return None


def _stream(c: Stream) -> str | None:
    if c.LANES_M * c.LANES_N != 32 or c.LANES_M < 1:
        return f"{c.LANES_M} x {c.LANES_N} lanes are not the 32 of a warp"
    if min(c.TILE_M, c.UNROLL, c.WARPS_M, c.WARPS_N, c.PER_BLOCK) < 1:
        return "a count is not positive"
    if c.WARPS_N > 1 and c.PER_BLOCK > 1:
        return f"PER_BLOCK={c.PER_BLOCK}: a block is one team where warps share rows"
    return None


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering; the model ranks them."""
    if device.backend == "cpu":
        if runtime.illegal(problem) is None:
            yield Runtime()
        yield from space_cpu.candidates(problem, device)
        return
    rough = (*_lanes_candidates(problem), *_stream_candidates(problem))
    yield from configs.fitting(problem, device, rough, resident, illegal)


resident = partial(configs.resident, work)


def teams(problem: Problem) -> list[tuple[int, int]]:
    """Teams of `lanes`, the most promising first: by what a matrix costs in instructions and shared memory."""
    found = []
    for m, n in product(_POWERS, repeat=2):
        if m * n > 32 or (m > 1 and m >= 2 * problem.M) or (n > 1 and n >= 2 * problem.K):
            continue
        config = Lanes(m, n)
        shape = shapes.lanes_shape(problem, config)
        if shape.stage_bytes > STAGE_BYTES:
            continue
        # a multiprocessor issues four instructions for every access to shared memory; many warps with little under way
        # hide more than few with much
        cost = work.warp_instructions(problem, config) / 4 + shape.wavefronts / shape.group
        found.append((cost * max(1, shape.stage_bytes / 8192), m, n))
    return [(m, n) for _, m, n in sorted(found)[:6]]


def per_team(problem: Problem, team: tuple[int, int], most: int) -> int:
    """Matrices per team so that a warp has up to `most` bytes under way."""
    size = 32 // (team[0] * team[1]) * (problem.M + 1) * problem.K * problem.itemsize
    return max(count for count in (1, 2, 4, 8) if count == 1 or count * size <= most)


def _lanes_candidates(problem: Problem) -> Iterator[Lanes]:
    for team, most, stages in product(teams(problem), (2048, 4096, 8192), (1, 2)):
        many = per_team(problem, team, most)
        yield Lanes(*team, many, stages)
        if lanes_bytes(problem, team) >= 8192:
            yield from (Lanes(*team, many, stages, warps) for warps in (1, 2))


def lanes_bytes(problem: Problem, team: tuple[int, int]) -> int:
    """What the teams of a warp have at least under way."""
    return int(shapes.lanes_shape(problem, Lanes(*team)).stage_bytes)


def _stream_candidates(problem: Problem) -> Iterator[Stream]:
    rows_first = canonical(problem).layout_a != "col"
    length = (canonical(problem).K if rows_first else canonical(problem).M) // shapes.adjacent(problem)
    for inner, tile, unroll in product(along(length), (1, 2, 4, 8), (1, 2, 3, 4, 8, 16)):
        lanes = (32 // inner, inner) if rows_first else (inner, 32 // inner)
        shape = shapes.stream_shape(problem, Stream(*lanes, tile, unroll, 1, 1, 1))
        lines = up(shape.rows, lanes[0])
        if not 8 <= tile * unroll <= 16 or tile >= 2 * lines or unroll >= 2 * up(shape.columns, lanes[1]):
            continue
        if 2 * shape.busy < best_use(problem):
            continue
        yield Stream(*lanes, tile, unroll, 1, 1, 4)
        if not rows_first and lines > tile:
            yield Stream(*lanes, tile, unroll, min(8, up(lines, tile)), 1, 1)
        if not rows_first and shape.columns >= 64:
            yield Stream(*lanes, tile, unroll, 1, 4, 1)


def along(length: int) -> tuple[int, ...]:
    """Numbers of lanes along a line of so many runs: where these are few, the lanes have several lines."""
    return (32, 16, 8) if length >= 8 else tuple(lanes for lanes in (8, 4, 2, 1) if lanes < 2 * length)


def best_use(problem: Problem) -> float:
    """The largest share of a warp's lanes that a load of one line can use."""
    canon = canonical(problem)
    length = (canon.K if canon.layout_a != "col" else canon.M) // shapes.adjacent(problem)
    return float(max(length / (up(length, inner) * inner) for inner in along(length)))
