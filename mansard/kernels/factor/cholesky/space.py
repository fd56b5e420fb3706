"""The GPU configurations of `cholesky`: what each parameter means, their rules, and what is worth considering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from ...common.configs import OnGpu
from . import space_cpu, spec, work
from .shapes import images_shape, piece, team
from .space_cpu import Rowwise, Simd

NARROW = 32  # beyond it a lane's share of the rows does not fit into registers


@dataclass(frozen=True)
class Lanes(OnGpu):
    """A few lanes of a warp per matrix, groups of matrices through shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "lanes"
    LANES: int = 8  # per matrix; they deal its rows among them
    TRIANGLE: bool = False  # leave out what lies on the other side of the diagonal
    WARPS: int = 4  # per block
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Tile(OnGpu):
    """A warp per matrix, half of one, or (TRIANGLE) two, which hold it in registers; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "tile"
    LANES_M: int = 8  # lanes along the rows
    LANES_N: int = 4  # and along the columns
    TRIANGLE: bool = False  # as above; of factors, shared memory has no place for it either
    WARPS: int = 1  # per block
    DIRECT: bool = False  # from global memory to registers and back, not by way of shared memory
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Block(OnGpu):
    """A block of threads per matrix, whose triangle lies in shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "block"
    WARPS: int = 4  # per matrix
    BLOCKS_PER_SM: int = 1


Gpu: TypeAlias = Lanes | Tile | Block
Config: TypeAlias = Gpu | Simd | Rowwise
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Lanes, Tile, Block, Simd, Rowwise)}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "cholesky", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    reason = spec.refusal(problem) or spec.too_large(problem) or _rules(problem, config)
    return reason or _too_large(problem, config, device)


def _too_large(problem: Problem, config: Gpu, device: Device) -> str | None:
    return configs.too_large(work, problem, config, device, together=not isinstance(config, Block) or config.WARPS < 4)


def _rules(problem: Problem, config: Gpu) -> str | None:
    if not 1 <= config.WARPS <= 32:
        return f"{config.WARPS} warps: 1 to 32"
    if isinstance(config, Block):
        return None
    if spec.is_ragged(problem) and not (isinstance(config, Tile) and config.DIRECT and problem.N % config.LANES_M == 0):
        return "ragged: only blocks, and tiles that are DIRECT and filled by the largest matrices"
    of_kind = _lanes(problem, config) if isinstance(config, Lanes) else _tile(problem, config)
    return of_kind or _triangle(problem, config)


def _lanes(problem: Problem, c: Lanes) -> str | None:
    if c.LANES < 1 or 32 % c.LANES:
        return f"a team of {c.LANES} lanes does not divide a warp"
    if problem.N > NARROW:
        return f"{problem.N} rows: at most {NARROW}"
    return None


def _tile(problem: Problem, c: Tile) -> str | None:
    alone = team(c) == 64 and c.WARPS == 2 and piece(problem, c) > 0  # two warps, a block of its own
    if min(c.LANES_M, c.LANES_N) < 1 or (32 % team(c) and not alone) or c.LANES_M < c.LANES_N:
        return f"a team of {c.LANES_M} x {c.LANES_N} lanes does not divide a warp, or is wider than tall"
    if c.DIRECT and (c.TRIANGLE or problem.want != "factor"):
        return "DIRECT: only for factors, and without TRIANGLE"
    if c.DIRECT and problem.dtype == "complex128" and not problem.aligned:
        return "DIRECT: elements begin on their own boundaries"
    return None


def _triangle(problem: Problem, c: Lanes | Tile) -> str | None:
    if piece(problem, c):
        return None
    a = images_shape(problem, c).a
    if c.TRIANGLE and (a.feed != "flat" or a.shifted or problem.N**2 * problem.itemsize % 16):
        return "TRIANGLE: only of a packed stack whose matrices are pieces of 16 bytes"
    return None


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering; the model ranks them."""
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    yield from configs.fitting(problem, device, _gpu_candidates(problem), resident, illegal)


def resident(problem: Problem, config: Any, device: Device) -> Any:
    """The same with as many blocks per multiprocessor as fit, None if not even one does."""
    if spec.refusal(problem) or spec.too_large(problem) or _rules(problem, config):
        return None
    quarters = config.WARPS >= 4  # smaller blocks share them
    refused = partial(_too_large, problem, device=device)
    return configs.resident(work, problem, config, device, quarters=quarters, refused=lambda c: refused(config=c))


def _gpu_candidates(problem: Problem) -> Iterator[Gpu]:
    triangles = (False, True) if problem.N * problem.itemsize >= 64 else (False,)
    if problem.N <= NARROW:
        for lanes, triangle, warps in product((1, 2, 4, 8, 16, 32), triangles, (2, 4, 8)):
            if lanes <= max(1, problem.N):
                yield Lanes(lanes, triangle, warps)
    if problem.N > 12:
        for (lanes_m, lanes_n), triangle, warps in product(((8, 2), (8, 4), (16, 2)), triangles, (1, 2, 4)):
            yield Tile(lanes_m, lanes_n, triangle, warps)
            yield Tile(lanes_m, lanes_n, triangle, warps, DIRECT=True)
    if problem.N > 24:
        yield from (Block(warps) for warps in (1, 2, 4, 8, 16))
