"""The GPU configurations of `spmv`: what each parameter means, what is legal, and what is worth considering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names
from ...common import configs
from ...common.configs import OnGpu, up
from . import space_cpu, work
from .space_cpu import Simd

CACHES = ("normal", "streaming", "once")
_POWERS = (1, 2, 4, 8, 16, 32)  # lanes of a row: what divides a warp


@dataclass(frozen=True)
class Sell(OnGpu):
    """A warp per chunk, 32 / C lanes per row; SELL and ELLPACK, one vector."""

    VARIANT: ClassVar[str] = "sell"
    BLOCK: int = 256  # threads
    UNROLL: int = 4  # entries of a lane whose loads are issued before the first is used
    CHUNKS: int = 1  # chunks of a warp, one after the other
    CACHE: Annotated[str, Names("normal", "streaming", "once")] = "streaming"  # how the matrix passes the caches
    BLOCKS_PER_SM: int = 4


@dataclass(frozen=True)
class Csr(OnGpu):
    """Some lanes per row; CSR, one vector."""

    VARIANT: ClassVar[str] = "csr"
    THREADS: int = 4  # lanes per row
    BLOCK: int = 256
    UNROLL: int = 4
    CACHE: Annotated[str, Names("normal", "streaming", "once")] = "normal"
    BLOCKS_PER_SM: int = 4


@dataclass(frozen=True)
class Merge(OnGpu):
    """As many entries for every thread, whatever the rows' lengths; CSR, vectors one after the other."""

    VARIANT: ClassVar[str] = "merge"
    BLOCK: int = 256
    PER_THREAD: int = 7  # entries and ends of rows of a thread
    CACHE: Annotated[str, Names("normal", "streaming", "once")] = "streaming"
    BLOCKS_PER_SM: int = 4


@dataclass(frozen=True)
class Block(OnGpu):
    """A warp per chunk, several vectors at once; SELL and ELLPACK."""

    VARIANT: ClassVar[str] = "block"
    LANES_N: int = 2  # lanes along the columns of X
    BLOCK: int = 256
    UNROLL: int = 2
    CACHE: Annotated[str, Names("normal", "streaming", "once")] = "streaming"
    BLOCKS_PER_SM: int = 2


@dataclass(frozen=True)
class Rows(OnGpu):
    """Some lanes per row, several vectors at once; CSR."""

    VARIANT: ClassVar[str] = "rows"
    LANES: int = 8  # per row of A
    LANES_N: int = 2  # of them along the columns of X
    BLOCK: int = 256
    CACHE: Annotated[str, Names("normal", "streaming", "once")] = "normal"
    BLOCKS_PER_SM: int = 2


Gpu: TypeAlias = Sell | Csr | Merge | Block | Rows
Config: TypeAlias = Gpu | Simd
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Sell, Csr, Merge, Block, Rows, Simd)}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "spmv", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    for_csr = isinstance(config, Csr | Merge | Rows)
    if for_csr != (problem.format == "csr"):
        return f"{config.VARIANT} does not read format {problem.format}"
    if problem.NVECS > 1 and isinstance(config, Sell | Csr):
        return f"{config.VARIANT} multiplies one vector, here are {problem.NVECS}"
    if config.BLOCK % 32 or not 32 <= config.BLOCK <= 1024 or config.BLOCKS_PER_SM < 1:
        return f"BLOCK={config.BLOCK} is no multiple of 32 up to 1024, or BLOCKS_PER_SM is not positive"
    if config.CACHE not in CACHES:
        return f"CACHE={config.CACHE!r} is not one of {', '.join(CACHES)}"
    return _counts(config) or configs.too_large(work, problem, config, device)


def _counts(c: Gpu) -> str | None:
    if isinstance(c, Sell) and not (1 <= c.CHUNKS <= 32 and 1 <= c.UNROLL <= 32):
        return f"CHUNKS={c.CHUNKS} or UNROLL={c.UNROLL} is not between 1 and 32"
    if isinstance(c, Csr) and (c.THREADS not in _POWERS or not 1 <= c.UNROLL <= 32):
        return f"THREADS={c.THREADS} is no power of two up to 32, or UNROLL={c.UNROLL} not between 1 and 32"
    if isinstance(c, Merge) and not 1 <= c.PER_THREAD <= 32:
        return f"PER_THREAD={c.PER_THREAD} is not between 1 and 32"
    if isinstance(c, Block) and (c.LANES_N not in _POWERS or not 1 <= c.UNROLL <= 16):
        return f"LANES_N={c.LANES_N} is no power of two up to 32, or UNROLL={c.UNROLL} not between 1 and 16"
    if isinstance(c, Rows) and (c.LANES not in _POWERS or c.LANES_N not in _POWERS or c.LANES_N > c.LANES):
        return f"LANES_N={c.LANES_N} and LANES={c.LANES} are no powers of two up to 32, in this order"
    return None


# Blocks of less than four warps share the quarters of a multiprocessor, which holds 32 blocks at the most.
resident = partial(configs.resident, work, quarters=False, most=32)


def across(problem: Problem) -> int:
    """Lanes that a row of X keeps busy, a power of two; a tile of columns has eight loads at most."""
    loads = up(problem.NVECS, problem.vector)
    return 1 << (min(loads, 8) - 1).bit_length()


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering; measurement decides."""
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    yield from configs.fitting(problem, device, _rough(problem), resident, illegal)


def _rough(problem: Problem) -> Iterator[Gpu]:
    if problem.format == "csr":
        for block, items, cache in product((128, 256), (5, 7, 9, 11), CACHES):
            yield Merge(block, items, cache)
        if problem.NVECS > 1:
            lanes_n = across(problem)
            for lanes, cache in product((lanes_n, 2 * lanes_n, 4 * lanes_n, 32), CACHES):
                yield Rows(min(32, lanes), lanes_n, 256, cache)
        else:
            for threads, unroll, cache in product(_POWERS, (1, 2, 4, 8), CACHES):
                yield Csr(threads, 256, unroll, cache)
    elif problem.NVECS > 1:
        for lanes_n, block, unroll, cache in product(
            (across(problem), across(problem) // 2), (128, 256), (1, 2, 4), CACHES
        ):
            if lanes_n:
                yield Block(lanes_n, block, unroll, cache)
    else:
        for block, unroll, chunks, cache in product((128, 256, 512), (2, 3, 4, 7, 8, 9), (1, 2, 4), CACHES):
            yield Sell(block, unroll, chunks, cache)
