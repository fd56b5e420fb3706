"""The configurations of `trmm`: what each parameter means, their rules, and what is worth considering."""

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
from ..trsm.systems import system
from ..trsm.triangles import illegal_lanes
from . import space_cpu, work
from .space_cpu import Simd
from .work_shapes import block_shape, lanes_shape

NARROW = 48  # rows of `lanes`: beyond it a lane's share of X does not fit into registers
_REGISTERS = 128  # of X, per lane
# Lanes along rows and columns of a team: powers of two that divide a warp.
_TEAMS = [(m, n) for m, n in product((1, 2, 4, 8, 16, 32), repeat=2) if m * n <= 32]


@dataclass(frozen=True)
class Lanes(OnGpu):
    """A few lanes of a warp per matrix, groups of matrices through shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "lanes"
    LANES_M: int = 4  # lanes along the rows of X
    LANES_N: int = 1  # and along its columns
    PER_TEAM: int = 1  # matrices of a group per team of lanes
    STAGES: int = 1  # groups under way per warp; 1: warps come and go
    # where X is gathered on its way out: back where B was, or in a place of its own
    OUT: Annotated[str, Names("own", "back")] = "back"
    TRIANGLE: bool = False  # leave out what lies on the other side of the diagonal
    WARPS: int = 4  # per block
    BLOCKS_PER_SM: int = 2


@dataclass(frozen=True)
class Block(OnGpu):
    """A block of threads per matrix, or per some of its columns; A in square blocks. Any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "block"
    BLK_M: int = 32  # order of the blocks of A
    BLK_N: int = 32  # columns of X per block of threads
    DIM_X: int = 8  # threads along the columns of X
    DIM_Y: int = 16  # and along its rows
    STAGES: int = 1  # blocks of A under way
    SPLIT: bool = False  # a block of threads has one block row of X; X is not B then
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Tensor(OnGpu):
    """A block of threads per matrix, or per some of its columns, on the tensor cores; A in square blocks. float64 and
    complex128, any layout and stride."""

    VARIANT: ClassVar[str] = "tensor"
    BLK_M: int = 64  # order of the blocks of A
    BLK_N: int = 64  # columns of X per block of threads
    WARPS_M: int = 1  # warps along the rows of X
    WARPS_N: int = 4  # and along its columns
    STAGES: int = 1  # blocks of A under way
    SPLIT: bool = False  # a block of threads has one block row of X; X is not B then
    BLOCKS_PER_SM: int = 1


Gpu: TypeAlias = Lanes | Block | Tensor
Config: TypeAlias = Gpu | Simd
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Lanes, Block, Tensor, Simd)}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "trmm", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    if problem.stack_x == "shared":
        return "the matrices of X need a place each"
    reason = _REASONS[config.VARIANT](problem, config)
    return reason or configs.too_large(work, problem, config, device, together=True)


def _block(problem: Problem, c: Block) -> str | None:
    threads = c.DIM_X * c.DIM_Y
    if min(c.BLK_M, c.BLK_N, c.STAGES) < 1 or c.DIM_Y & (c.DIM_Y - 1) or c.DIM_X & (c.DIM_X - 1):
        return "a count is not positive, or DIM_X or DIM_Y no power of two"
    if threads % 32 or threads > configs.MOST_THREADS:
        return f"{c.DIM_X} x {c.DIM_Y} threads are not 1 to 32 whole warps"
    return _blocks_of_a(problem, c)


def _tensor(problem: Problem, c: Tensor) -> str | None:
    if problem.dtype not in ("float64", "complex128"):
        return f"{problem.dtype}: the tensor cores take float64 and complex128"
    if min(c.BLK_M, c.BLK_N, c.STAGES, c.WARPS_M, c.WARPS_N) < 1 or c.WARPS_M * c.WARPS_N > 32:
        return f"{c.WARPS_M} x {c.WARPS_N} warps: 1 to 32, and positive counts"
    shape = block_shape(problem, c)
    if shape.order < problem.N and shape.order % 16:
        return f"BLK_M={c.BLK_M} is no multiple of 16 rows"
    return _blocks_of_a(problem, c)


def _blocks_of_a(problem: Problem, c: Block | Tensor) -> str | None:
    shape = block_shape(problem, c)
    if shape.blocks * (shape.blocks + 1) // 2 < c.STAGES:
        return f"STAGES={c.STAGES}: more than there are blocks of A"
    return _cut_pieces(problem, c)


_REASONS: dict[str, Any] = {"lanes": partial(illegal_lanes, NARROW, lanes_shape), "block": _block, "tensor": _tensor}


def _cut_pieces(problem: Problem, c: Block | Tensor) -> str | None:
    """Why windows of A or B would begin inside pieces of 16 bytes that their feed copies, or None."""
    operands, shape = system(problem).operands, block_shape(problem, c)
    vector = 16 // problem.itemsize
    if shape.a.feed == "lines" and shape.order % vector and shape.order < problem.N:
        return f"BLK_M={c.BLK_M} is no multiple of the {vector} elements of a copy"
    if shape.b.feed == "lines" and operands.layout_b != "col" and c.BLK_N % vector and c.BLK_N < problem.NRHS:
        return f"BLK_N={c.BLK_N} is no multiple of the {vector} elements of a copy"
    return None


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering."""
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    yield from configs.fitting(problem, device, _gpu_candidates(problem), resident, illegal)


def resident(problem: Problem, config: Any, device: Device) -> Any:
    """The configuration with as many blocks per multiprocessor as fit, None if not even one does."""
    if not isinstance(config, Lanes) and _REASONS[config.VARIANT](problem, config):
        return None
    return configs.resident(work, problem, config, device, quarters=False, refused=partial(_refused, problem, device))


def _refused(problem: Problem, device: Device, config: Any) -> str | None:
    return configs.too_large(work, problem, config, device, together=True)


def _gpu_candidates(problem: Problem) -> Iterator[Gpu]:
    if problem.N <= NARROW:
        yield from _lanes_candidates(problem)
    if problem.N > 8:
        yield from _block_candidates(problem)
    if problem.N > 16 and problem.NRHS > 4:
        yield from _tensor_candidates(problem)


def _lanes_candidates(problem: Problem) -> Iterator[Lanes]:
    back = "own" if problem.stack_b == "shared" else "back"
    triangles = (False, True) if problem.N * problem.itemsize >= 64 else (False,)
    for (lanes_m, lanes_n), triangle in product(teams(problem), triangles):
        yield from (Lanes(lanes_m, lanes_n, 1, 1, back, triangle, warps) for warps in (1, 2, 4))
        yield Lanes(lanes_m, lanes_n, 1, 2, back, triangle)
        if 32 // (lanes_m * lanes_n) * problem.N**2 * problem.itemsize <= 4096:
            yield from (Lanes(lanes_m, lanes_n, per_team, 1, "own", triangle) for per_team in (2, 4))


def teams(problem: Problem) -> list[tuple[int, int]]:
    """Shapes of teams, the most promising first: by what a multiprocessor issues, reads from shared memory and moves
    per matrix."""
    found = []
    for m, n in _TEAMS:
        rows, columns = configs.up(problem.N, m), configs.up(problem.NRHS, n)
        idle = (m > 1 and rows * (m // 2) >= problem.N) or (n > 1 and columns * (n // 2) >= problem.NRHS)
        if idle or rows * columns * problem.itemsize // 4 > _REGISTERS:
            continue
        config = Lanes(m, n, OUT="own" if problem.stack_b == "shared" else "back")
        shape = lanes_shape(problem, config)
        if shape.rows * shape.columns * problem.itemsize // 4 > _REGISTERS:
            continue
        warps = min(48, 2000 // work.registers(problem, config), _SHARED // max(1, shape.stage_bytes))
        rate = _FLOPS_PER_CLOCK[problem.itemsize // (1 + problem.is_complex)]
        flops = work.executed_flops(problem.replace(BATCH=1), config) / rate
        issued, crossed = work.issued(problem, config) / 4, work.crossed(problem, config)
        moved = (problem.N + 2 * problem.NRHS) * problem.N * problem.itemsize / _BYTES_PER_CLOCK
        few = max(1.0, 16 / max(warps, 0.1))  # warps, to take turns at copying and computing
        found.append((few * (max(issued, crossed, moved, flops) + 0.2 * (issued + crossed + moved + flops)), m, n))
    return [(m, n) for _, m, n in sorted(found)[:6]]


# Of a multiprocessor: bytes of shared memory, bytes of memory per clock, flops per clock by the size of a real number.
_SHARED, _BYTES_PER_CLOCK, _FLOPS_PER_CLOCK = 220 << 10, 18, {4: 256, 8: 128}


def _block_candidates(problem: Problem) -> Iterator[Block]:
    for order, (dim_x, dim_y), each in product(orders(problem), dims(problem), (1, 2, 4, 8)):
        columns = min(problem.NRHS, dim_x * each)
        rows = configs.up(order, dim_y)
        if rows * configs.up(columns, dim_x) * problem.itemsize // 4 > _REGISTERS or (each > 1 and columns <= dim_x):
            continue
        blocks = configs.up(problem.N, order)
        for stages in sorted({min(most, blocks * (blocks + 1) // 2) for most in (1, 2, 3)}):
            yield Block(order, columns, dim_x, dim_y, stages)
            if blocks > 1:
                yield Block(order, columns, dim_x, dim_y, min(stages, blocks), True)


def _tensor_candidates(problem: Problem) -> Iterator[Tensor]:
    for order, most, along, stages in product((16, 32, 48, 64), (16, 32, 64), (1, 2, 4), (1, 2, 3)):
        columns = min(most, configs.up(problem.NRHS, 16) * 16)
        splits = (False, True) if order < problem.N else (False,)
        for across, split in product(sorted({configs.up(columns, 16), configs.up(columns, 32)}), splits):
            yield Tensor(order, columns, along, across, stages, split)


def orders(problem: Problem) -> list[int]:
    """Orders of the blocks of A: equal parts of at most so many rows, or the whole matrix."""
    found = []
    for most in (32, 64, 48, 16):
        parts = configs.up(problem.N, most)
        found.append(min(problem.N, configs.up(configs.up(problem.N, parts), 4) * 4))
    return list(dict.fromkeys(found))


def dims(problem: Problem) -> list[tuple[int, int]]:
    """Threads of `block`, along columns and rows."""
    if problem.NRHS == 1:
        return [(1, 32), (1, 64)]
    if problem.NRHS <= 4:
        return [(2, 16), (2, 32), (4, 16), (4, 8)]
    if problem.NRHS <= 12:
        return [(4, 8), (4, 16), (8, 8), (8, 16)]
    return [(8, 8), (8, 16), (16, 8), (16, 16), *([(32, 4)] if problem.NRHS > 16 else [])]
