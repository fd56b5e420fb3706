"""The configurations of `rank_k`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names, Numbers, Range
from ...common import configs
from ...common.configs import OnGpu, up
from ..gemm.work_stream import SPLIT
from . import space_cpu, work
from .shapes import oriented, tensor_shape
from .space_cpu import Simd

_ONE_TILE = 16  # rows that one tile of the tensor cores has: of fewer, most of it would be padding
SHALLOWEST = 16  # terms of a sum from which three TF32 products keep to twice the error bound (gemm's split_tile.cuh)
_PANEL_BYTES = 32 << 10  # bytes of a panel that are worth a place in a ring: less is copied at once


@dataclass(frozen=True)
class Tiles(OnGpu):
    """A register tile of the triangle per thread, operands through shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "tiles"
    TILE: Annotated[int, Range(1, 8)] = 4  # rows of a set: a thread has TILE x TILE entries
    GROUP: int = 1  # matrices per block
    PARTS: int = 1  # blocks per matrix
    BLK_K: Annotated[int, Range(1, 16384)] = 16384  # columns of A per panel
    STAGES: Annotated[int, Range(1, 8)] = 1  # places of the ring; 1 where a panel is everything
    OUT: Annotated[str, Names("direct", "back")] = "back"  # how C leaves: from registers, or by way of shared memory
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Tensor(OnGpu):
    """A square of the triangle per warp on the tensor cores, panels through shared memory; one factor, any dtype."""

    VARIANT: ClassVar[str] = "tensor"
    TILE: Annotated[int, Range(1, 4)] = 2  # tiles of 16 x 16 along a side of a warp's square
    PARTS: int = 1  # blocks per matrix
    BLK_K: Annotated[int, Range(1, 16384)] = 32  # columns of A per panel
    STAGES: Annotated[int, Range(1, 8)] = 2  # places of the ring: of panels, or (one or two) of groups
    KSTEP: Annotated[int, Numbers(4, 8, 16)] = 8  # values of k per instruction
    GROUP: int = 1  # matrices per block
    OUT: Annotated[str, Names("direct", "back")] = "direct"  # how C leaves: from registers, or by way of shared memory
    BLOCKS_PER_SM: int = 1


Gpu: TypeAlias = Tiles | Tensor
Config: TypeAlias = Gpu | Simd
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Tiles, Tensor, Simd)}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "rank_k", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if isinstance(config, Simd) or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    problem = oriented(problem)
    reason = _tensor(problem, config, device) if isinstance(config, Tensor) else _tiles(problem, config)
    return reason or configs.too_large(work, problem, config, device, together=True)


def _tiles(problem: Problem, c: Tiles) -> str | None:
    """Why a tile, a group or a panel does not fit the problem; resources apart."""
    if problem.K < 1 or problem.N < 1:
        return "a size is zero: there is nothing to multiply"
    if c.TILE > problem.N:
        return f"TILE={c.TILE} is more than the {problem.N} rows"
    if c.PARTS > 1 and (c.GROUP > 1 or c.OUT == "back"):
        return f"PARTS={c.PARTS}: a part is of one matrix, and leaves from registers"
    if c.BLK_K >= problem.K:
        if c.STAGES != 1:
            return f"STAGES={c.STAGES}: one panel has the whole depth of {problem.K}, and needs one place"
        return None
    if c.GROUP != 1 or c.STAGES < 2:
        return f"GROUP={c.GROUP}, STAGES={c.STAGES}: panels are those of one matrix, in a ring of two places and more"
    vector = 16 // problem.itemsize
    if c.BLK_K % vector:
        return f"BLK_K={c.BLK_K} is not a multiple of the {vector} elements of 16 bytes"
    return None


def _tensor(problem: Problem, c: Tensor, device: Device) -> str | None:
    """Why the tensor cores, a part or a panel do not fit the problem; resources apart."""
    if problem.K < 1 or problem.N < 1:
        return "a size is zero: there is nothing to multiply"
    if problem.two:
        return "tensor cores form products of one factor"
    if device.capability < (80 if problem.dtype in SPLIT else 90):
        return f"needs m16n8 tensor-core instructions for {problem.dtype}, the device is {device.arch}"
    if problem.dtype in SPLIT and (reason := _split(problem, c)):
        return reason
    is_whole = c.BLK_K >= problem.K
    if c.STAGES > 2 if is_whole else c.STAGES < 2:
        return f"STAGES={c.STAGES}, BLK_K={c.BLK_K}: a ring has two places and more, one of whole matrices two, or one"
    if c.GROUP < 1 or (c.GROUP > 1 and not is_whole):
        return f"GROUP={c.GROUP}, BLK_K={c.BLK_K}: panels are those of one matrix"
    if c.PARTS > 1 and (c.GROUP > 1 or c.OUT == "back" or (is_whole and c.STAGES > 1)):
        return f"PARTS={c.PARTS}: a part is of one matrix, comes and goes, and leaves from registers"
    if c.BLK_K < problem.K and c.BLK_K % 4:
        return f"BLK_K={c.BLK_K} is not a multiple of the four values of k of an instruction"
    if not is_whole and 16 * tensor_shape(problem, c).side > problem.N:
        return f"TILE={c.TILE}: fragments of {problem.N} rows would reach into the next place of the ring"
    return None


def _split(problem: Problem, c: Tensor) -> str | None:
    """Why single precision cannot be formed of three TF32 products, or None if it can."""
    if problem.K < SHALLOWEST:
        return f"sums of {problem.K} products are less accurate as TF32 products; {SHALLOWEST} and more are not"
    if c.KSTEP != 8 or c.OUT != "back":
        return f"KSTEP={c.KSTEP}, OUT={c.OUT}: TF32 instructions take 8 values of k, and NaN are repaired in an image"
    if c.BLK_K < problem.K and c.BLK_K % 8:
        return f"BLK_K={c.BLK_K} is not a multiple of the eight values of k of an instruction"
    side = tensor_shape(problem, c).side
    return f"{side} tiles along a side: `Spread` takes one or an even number of them" if side > 1 and side % 2 else None


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering."""
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    yield from configs.fitting(problem, device, _rough(problem), resident, illegal)


def resident(problem: Problem, config: Any, device: Device) -> Any:
    """The configuration with as many blocks per multiprocessor as fit, None if not even one does."""
    turned = oriented(problem)
    if _tensor(turned, config, device) if isinstance(config, Tensor) else _tiles(turned, config):
        return None
    refused = partial(_refused, problem, device)
    return configs.resident(work, problem, config, device, quarters=False, refused=refused)


def _refused(problem: Problem, device: Device, config: Any) -> str | None:
    return configs.too_large(work, problem, config, device, together=True)


def _rough(problem: Problem) -> Iterator[Gpu]:
    if problem.dtype in ("float64", "complex128") and problem.N > _ONE_TILE:
        for square, step in ((1, 4), (2, 4), (2, 8), (1, 8)):
            yield from (
                Tensor(square, parts, depth, 2, step) for parts in (1, 2) for depth in (16, 32) if depth < problem.K
            )
            yield Tensor(square, 1, 16384, 1, step)
    for tile in range(1, min(8, problem.N) + 1):
        sets = up(problem.N, tile)
        tiles = sets * (sets + 1) // 2
        for threads in (64, 128, 256):
            yield Tiles(tile, max(1, threads // tiles))
        for depth, stages in ((16, 2), (16, 3), (32, 2)):
            if problem.N * problem.K * problem.itemsize > _PANEL_BYTES and depth < problem.K:
                for out in ("back", "direct"):
                    yield Tiles(tile, 1, 1, depth, stages, out)
