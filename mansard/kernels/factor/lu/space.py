"""The GPU configurations of `lu`: what each parameter means, their rules, and what is worth considering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names
from ...common import configs
from ...common.configs import OnGpu
from . import runtime, space_cpu, spec, work
from .runtime import Runtime
from .space_cpu import Exchanges, Rowwise, Simd, Small

NARROW = 32  # rows and columns beyond which a lane's share does not fit into registers
_WORDS, _MOST_WORDS = 200, 232  # registers of a lane for its rows; at the most, where right-hand sides are few


@dataclass(frozen=True)
class Lanes(OnGpu):
    """A few lanes of a warp per matrix, groups of matrices through shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "lanes"
    LANES: int = 8  # of a team; each has whole rows, one in turn (of one or two lanes all)
    ROLLED: bool = False  # four steps share their code
    WARPS: int = 4  # per block
    BLOCKS_PER_SM: int = 2
    # what carries the pivot's row: shuffles among lanes, or shared memory
    VIA: Annotated[str, Names("lanes", "shared")] = "lanes"


@dataclass(frozen=True)
class Block(OnGpu):
    """A block of threads per matrix, which lies in shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "block"
    BLK: int = 8  # columns of a panel
    WARPS: int = 4
    TEAM: Annotated[str, Names("warp", "block")] = "warp"  # who factors a panel: the first warp, or the whole block
    UNIT: Annotated[str, Names("fma", "mma")] = "fma"  # what updates the rest: fma, or (float64) mma
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Tile(OnGpu):
    """Only inverses: a block of threads per matrix, which lies in their registers; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "tile"
    WARPS: int = 1  # per block
    LANES_N: int = 4  # along the columns; the other lanes of all warps have different rows
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Swaps(OnGpu):
    """Only exchanges of rows: a block of threads per matrix and some of its columns."""

    VARIANT: ClassVar[str] = "swaps"
    BLK_N: int = 16  # columns at a time
    WARPS: int = 4
    TURNS: int = 1  # of so many columns, per block
    BLOCKS_PER_SM: int = 2


Gpu: TypeAlias = Lanes | Block | Tile | Swaps
Config: TypeAlias = Gpu | Simd | Rowwise | Small | Exchanges | Runtime
VARIANTS: dict[str, type[Config]] = {
    config.VARIANT: config for config in (Lanes, Block, Tile, Swaps, Simd, Rowwise, Small, Exchanges, Runtime)
}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "lu", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if isinstance(config, Runtime):
        return configs.elsewhere(config, device) or runtime.illegal(problem)
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    if (problem.want == "swap") != isinstance(config, Swaps):
        return f"{config.VARIANT} is not what exchanges rows, or does nothing else"
    if isinstance(config, Swaps):
        legal = 1 <= config.WARPS <= 32 and min(config.BLK_N, config.TURNS) >= 1
        reason = None if legal else f"{config.WARPS} warps, a count: 1 to 32, at least 1"
    else:
        reason = spec.too_large(problem) or _of_variant(problem, config)
    return reason or configs.too_large(work, problem, config, device, together=True)


def _of_variant(problem: Problem, c: Lanes | Block | Tile) -> str | None:
    if isinstance(c, Lanes):
        return _lanes(problem, c)
    return _block(problem, c) if isinstance(c, Block) else _tile(problem, c)


def _lanes(problem: Problem, c: Lanes) -> str | None:
    if c.LANES not in (1, 2, 4, 8, 16, 32) or not 1 <= c.WARPS <= 32:
        return f"{c.LANES} lanes, {c.WARPS} warps: teams of 1, 2, 4, 8, 16 or 32 lanes, at most 32 warps"
    if c.VIA not in ("lanes", "shared") or (c.VIA == "shared" and c.LANES <= 2):
        return f"VIA={c.VIA}: lanes, or (four of them, or more) shared"
    held, most = work.share(problem, c), _WORDS if problem.NRHS > 1 else _MOST_WORDS
    return f"a lane's share of the rows fills {held} registers" if held > most else None


def _block(problem: Problem, c: Block) -> str | None:
    if c.BLK not in (4, 8, 16) or not 1 <= c.WARPS <= 32:
        return f"BLK={c.BLK}, {c.WARPS} warps: panels of 4, 8 or 16 columns, 1 to 32 warps"
    if c.UNIT not in ("fma", "mma") or c.TEAM not in ("warp", "block"):
        return f"UNIT={c.UNIT}, TEAM={c.TEAM}: fma or mma, warp or block"
    if c.UNIT == "mma" and (problem.dtype != "float64" or c.BLK < 8):
        return "UNIT=mma: only of float64 numbers, 8 products at a time"
    held = work.share(problem, c)
    return f"a lane's share of a panel fills {held} registers" if held > _WORDS else None


def _tile(problem: Problem, c: Tile) -> str | None:
    if problem.want != "inverse":
        return f"want={problem.want}: tile gives nothing but inverses"
    if c.LANES_N not in (1, 2, 4, 8) or not 1 <= c.WARPS <= 32:
        return f"LANES_N={c.LANES_N}, {c.WARPS} warps: 1, 2, 4 or 8 lanes, 1 to 32 warps"
    held = work.share(problem, c)
    return f"a lane's tile fills {held} registers" if held > _MOST_WORDS else None


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering; the model ranks them."""
    if device.backend == "cpu":
        if runtime.illegal(problem) is None:
            yield Runtime()
        yield from space_cpu.candidates(problem, device)
        return
    yield from configs.fitting(problem, device, _gpu_candidates(problem), resident, illegal)


def resident(problem: Problem, config: Any, device: Device) -> Any:
    """The same with as many blocks per multiprocessor as fit, None if not even one does."""
    most = min(32, device.threads_per_multiprocessor // work.threads(problem, config))
    return configs.fullest(config, most, lambda c: configs.too_large(work, problem, c, device, together=True))


def _gpu_candidates(problem: Problem) -> Iterator[Gpu]:
    if problem.want == "swap":
        yield from (Swaps(*choice) for choice in product((8, 16, 32), (2, 4, 8, 16), (1, 4)))
        return
    if max(problem.M, problem.N) <= 2 * NARROW:
        for lanes, rolled, warps, via in product((1, 2, 4, 8, 16, 32), (False, True), (4, 1), ("lanes", "shared")):
            yield Lanes(lanes, rolled and lanes > 2, warps, VIA=via if lanes > 2 else "lanes")
    if problem.want == "inverse":
        yield from (Tile(warps, split) for warps in (1, 2, 3, 4, 6, 8) for split in (2, 4, 8))
    if problem.N > NARROW // 2:
        units = ("mma", "fma") if problem.dtype == "float64" else ("fma",)
        yield from (Block(*choice) for choice in product((4, 8, 16), (1, 2, 4, 8, 16), ("warp", "block"), units))
