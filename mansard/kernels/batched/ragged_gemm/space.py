"""The GPU configurations of `ragged_gemm`: the sort, and one kernel for each class of sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names, Range
from ...common import configs
from ...common.configs import OnGpu
from . import space_cpu, work
from .space_cpu import Simd

WIDTHS = (None, 128, 64, 32, 24, 16, 12, 8, 4)  # the largest of m, n and k in each class, as items.cuh has them
VECTORS = (None, 256, 32, 16, 8)  # the same of matrices times a column, the classes that follow
ROW = len(WIDTHS) + len(VECTORS)  # then the class of rows times a matrix
TENSOR = ("float64", "complex128")  # what tensor cores multiply here


@dataclass(frozen=True)
class Sort(OnGpu):
    """Products in the order of their classes: two launches."""

    VARIANT: ClassVar[str] = "sort"
    THREADS: int = 256
    PLACE: bool = False  # the second one
    FROM: int = 24  # products of more, up to 32, are one class
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Lanes(OnGpu):
    """A class of small products: teams of lanes, whole matrices in shared memory."""

    VARIANT: ClassVar[str] = "lanes"
    CLASS: Annotated[int, Range(0, 31)] = 8
    LANES_M: int = 2  # lanes of a team along the rows of C
    LANES_N: int = 2  # and along its columns
    WARPS: int = 4
    STAGES: int = 1  # products per team under way: 1, or 2
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Whole(OnGpu):
    """A class of products on the tensor cores: teams of warps, whole matrices in shared memory."""

    VARIANT: ClassVar[str] = "whole"
    CLASS: Annotated[int, Range(0, 31)] = 2
    WARPS_M: int = 2  # of a team, along the rows of C
    WARPS_N: int = 2  # and along its columns
    PER_BLOCK: int = 1  # teams
    ROOM: int = 112  # KiB of shared memory per block: a team's is for the largest product, and the next beside most
    # products of a team, then another block takes its place; 0: blocks stay
    EACH: Annotated[int, Range(0, 1 << 20)] = 0
    BLOCKS_PER_SM: int = 2


@dataclass(frozen=True)
class Tiles(OnGpu):
    """A class of large products: blocks of threads, tiles of C, panels of A and B."""

    VARIANT: ClassVar[str] = "tiles"
    CLASS: Annotated[int, Range(0, 31)] = 0
    SLOTS: int = 16  # blocks per product
    BLK_M: int = 64  # the tile
    BLK_N: int = 64
    BLK_K: int = 16  # columns of A per panel
    THREADS: int = 128
    STAGES: int = 3  # panels under way
    UNIT: Annotated[str, Names("fma", "tensor")] = "fma"  # or tensor: float64, complex128
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Vectors(OnGpu):
    """A class of small matrices times vectors: teams of lanes, through shared memory."""

    VARIANT: ClassVar[str] = "vectors"
    CLASS: Annotated[int, Range(0, 31)] = 11
    LANES: int = 32  # of a team
    WARPS: int = 4
    # products of a team, then another block takes its place; 0: blocks stay
    EACH: Annotated[int, Range(0, 1 << 20)] = 0
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Stream(OnGpu):
    """A class of matrices times vectors of any size: warps, straight from global memory."""

    VARIANT: ClassVar[str] = "stream"
    CLASS: Annotated[int, Range(0, 31)] = 10
    SLOTS: int = 1  # blocks per product
    WARPS: int = 4
    ROWS: int = 8  # loads under way, along the rows
    UNROLL: int = 2  # and along the columns
    BLOCKS_PER_SM: int = 1


Gpu: TypeAlias = Sort | Lanes | Whole | Tiles | Vectors | Stream
Config: TypeAlias = Gpu | Simd
_KINDS: tuple[type[Config], ...] = (Sort, Lanes, Whole, Tiles, Vectors, Stream, Simd)
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in _KINDS}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "ragged_gemm", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if elsewhere := configs.elsewhere(config, device):
        return elsewhere
    if config.TARGET == "cpu":
        return None
    if isinstance(config, Sort):
        return None if config.THREADS % 32 == 0 else "THREADS: whole warps are needed"
    if config.CLASS >= work.CLASSES:
        reason: str | None = f"CLASS={config.CLASS}: there are {work.CLASSES} classes"
    elif isinstance(config, Vectors | Stream):
        reason = _vectors(config) if isinstance(config, Vectors) else _stream(config)
    elif config.CLASS not in range(len(WIDTHS)):
        reason = f"CLASS={config.CLASS} has vectors"
    elif isinstance(config, Lanes):
        reason = _lanes(config)
    else:
        reason = _whole(problem, config) if isinstance(config, Whole) else _tiles(problem, config)
    return reason or configs.too_large(work, problem, config, device)


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """The CPU's kernel, or for each class the kernels that can take it, as their classes declare them."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    for index, kind in product(range(work.CLASSES), (Lanes, Whole, Tiles, Vectors, Stream)):
        config = kind(CLASS=index)
        if illegal(problem, config, device) is None:
            yield config


def _lanes(c: Lanes) -> str | None:
    width = WIDTHS[c.CLASS]
    if width is None or width > 32:
        return f"CLASS={c.CLASS} has matrices that no team holds"
    if 32 % (c.LANES_M * c.LANES_N) or width % c.LANES_M or width % c.LANES_N:
        return f"{c.LANES_M} x {c.LANES_N} lanes do not share {width} rows and columns, or a warp, evenly"
    if c.STAGES not in (1, 2):
        return f"STAGES={c.STAGES}: 1 or 2"
    return None


def _whole(problem: Problem, c: Whole) -> str | None:
    if problem.dtype not in TENSOR:
        return "tensor cores multiply float64 and complex128 here"
    if WIDTHS[c.CLASS] is None or work.whole_bytes(problem, c.CLASS) > c.ROOM * 1024 // c.PER_BLOCK:
        return f"ROOM={c.ROOM} KiB do not hold the largest products of CLASS={c.CLASS}"
    if c.PER_BLOCK > 15:
        return f"PER_BLOCK={c.PER_BLOCK}: a block has 15 barriers for them"
    return None


def _tiles(problem: Problem, c: Tiles) -> str | None:
    if c.UNIT == "tensor" and problem.dtype not in TENSOR:
        return "tensor cores multiply float64 and complex128 here"
    warps_m = 2 if c.THREADS > 64 else 1
    rows, columns = (16 * warps_m, c.THREADS // 4 // warps_m) if c.UNIT == "tensor" else (c.THREADS // 16, 16)
    sides = (c.BLK_K, c.BLK_N, *([c.BLK_M] if problem.trans_a else []))  # lines of panels, element by element
    if c.THREADS % 64 or c.BLK_M % rows or c.BLK_N % columns or c.BLK_K % 4 or c.STAGES < 2:
        return f"{c.THREADS} threads do not share {c.BLK_M} x {c.BLK_N} entries evenly"
    if any(c.THREADS % side for side in sides):
        return f"{c.THREADS} threads do not share {c.BLK_M} x {c.BLK_N} entries evenly"
    return None


def _vectors(c: Vectors) -> str | None:
    width = work.widest(c.CLASS)
    if not len(WIDTHS) < c.CLASS < ROW or width > 32:
        return f"CLASS={c.CLASS} has no vectors that a team holds"
    if c.LANES > 32 or 32 % c.LANES or width % c.LANES:
        return f"{c.LANES} lanes do not share {width} rows, or a warp, evenly"
    return None


def _stream(c: Stream) -> str | None:
    if c.CLASS in range(len(WIDTHS)):
        return f"CLASS={c.CLASS} has no vectors"
    if c.ROWS & (c.ROWS - 1) or c.ROWS * c.UNROLL < 2:
        return f"ROWS={c.ROWS}, UNROLL={c.UNROLL}: a power of two, and two loads under way"
    return None
