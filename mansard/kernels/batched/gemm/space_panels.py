"""The `block` and `tensor` configurations: what each parameter means, their rules and their candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names, Numbers, Range
from ...common.configs import OnGpu, up
from .work_panels import panel_shape

_WHOLE_BYTES = 100 << 10  # operands up to this size are one panel


@dataclass(frozen=True)
class Block(OnGpu):
    """Teams of threads with a register tile each, panels through shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "block"
    DIM_X: int = 16  # threads of a team along the columns of C
    DIM_Y: int = 8  # and along its rows
    BLK_M: Annotated[int, Range(1, 16384)] = 64  # rows of a tile of C
    BLK_N: Annotated[int, Range(1, 16384)] = 64  # its columns
    BLK_K: Annotated[int, Range(1, 16384)] = 16  # columns of A per panel
    PER_BLOCK: int = 1  # teams per block
    STAGES: int = 2  # panels under way per team
    OUT: Annotated[str, Names("direct", "own", "back")] = "direct"  # how C leaves
    BLOCKS_PER_SM: int = 2


@dataclass(frozen=True)
class Tensor(OnGpu):
    """Teams of warps with double-precision tensor cores, panels through shared memory; any layout and stride."""

    VARIANT: ClassVar[str] = "tensor"
    WARPS_M: int = 2  # warps of a team along the rows of C
    WARPS_N: int = 2  # and along its columns
    BLK_M: Annotated[int, Range(1, 16384)] = 64  # rows of a tile of C
    BLK_N: Annotated[int, Range(1, 16384)] = 64  # its columns
    BLK_K: Annotated[int, Range(1, 16384)] = 64  # columns of A per panel
    KSTEP: Annotated[int, Numbers(4, 8, 16)] = 8  # values of k per instruction
    PER_BLOCK: int = 1  # teams per block
    STAGES: int = 1  # panels under way per team
    OUT: Annotated[str, Names("direct", "own", "back")] = "direct"  # how C leaves
    BLOCKS_PER_SM: int = 1


def illegal(problem: Problem, c: Block | Tensor, device: Device) -> str | None:
    """Why the configuration cannot be used for a problem with a row-major C; resources apart."""
    if min(value for value in vars(c).values() if isinstance(value, int)) < 1 or c.OUT not in ("direct", "own", "back"):
        return f"a count is not positive, or OUT={c.OUT!r} is not one of direct, own, back"
    vector = 16 // problem.itemsize
    if any(size % vector for size in (c.BLK_M, c.BLK_N, c.BLK_K)):
        return f"BLK_M, BLK_N, BLK_K are not multiples of the {vector} elements of 16 bytes"
    if isinstance(c, Tensor):
        reason = _tensor(problem, c, device)
        if reason:
            return reason
    shape = panel_shape(problem, c)
    if shape.team % 32 or (c.PER_BLOCK > 15 and shape.team > 32):
        return f"a team has {shape.team} threads: whole warps, and 15 named barriers"
    if c.OUT != "direct" and shape.tiles > 1:
        return f"OUT={c.OUT}: only whole matrices leave by way of shared memory"
    if isinstance(c, Block) and (shape.n < c.DIM_X or shape.m < c.DIM_Y):
        return f"{c.DIM_X} x {c.DIM_Y} threads are more than a tile of {shape.n} columns and {shape.m} rows"
    return None


def _tensor(problem: Problem, c: Tensor, device: Device) -> str | None:
    if device.capability < 90:
        return f"needs m16n8k4 tensor-core instructions (sm_90), the device is {device.arch}"
    if problem.dtype not in ("float64", "complex128"):
        return f"the tensor cores multiply float64 and complex128, not {problem.dtype}"
    if c.KSTEP not in (4, 8, 16):
        return f"KSTEP={c.KSTEP} is not one of 4, 8, 16"
    shape = panel_shape(problem, c)
    if (c.WARPS_M - 1) * shape.rows * 16 >= shape.m or (c.WARPS_N - 1) * shape.columns * 16 >= shape.n:
        return f"{c.WARPS_M} x {c.WARPS_N} warps are more than a tile of {shape.m} x {shape.n} needs"
    return None


def balanced(size: int, most: int, unit: int) -> int:
    """Of the fewest equal pieces of `size` that are at most `most`, the length, in whole units."""
    return up(up(size, up(size, most)), unit) * unit


def _ways(whole_tile: bool, whole: bool) -> list[tuple[int, str]]:
    """Panels under way and how C leaves. Whole matrices need no ring: other teams fill the gaps."""
    if not whole:
        return [(2, "direct"), (3, "direct")]
    return [(1, "back"), (1, "direct"), (2, "back"), (2, "direct"), (2, "own")] if whole_tile else [(2, "direct")]


def tensor_candidates(problem: Problem) -> Iterator[Tensor]:
    """Whole matrices where they fit; tiles and panels of larger ones."""
    words = problem.itemsize // 8
    tiles = [(balanced(problem.M, a, 16), balanced(problem.N, b, 16)) for a, b in ((128, 128), (128, 64), (64, 64))]
    operand_bytes = (problem.M + problem.N) * problem.K * problem.itemsize
    depths = [up(problem.K, 4) * 4] if operand_bytes <= _WHOLE_BYTES else []
    depths += [depth for depth in (16, 32) if depth < problem.K and operand_bytes > 32 << 10]
    step = 4 if problem.is_complex or problem.K < 8 else 8
    for (m, n), depth in product(dict.fromkeys(tiles), depths):
        for warps_m, warps_n in _teams_of_warps(m // 16, n // 16, words):
            for stages, out in _ways(m >= problem.M and n >= problem.N, depth >= problem.K):
                yield Tensor(warps_m, warps_n, m, n, depth, step, max(1, 4 // (warps_m * warps_n)), stages, out)


def _teams_of_warps(high: int, wide: int, words: int) -> Iterator[tuple[int, int]]:
    """Teams for a tile of high x wide tiles of 16: at most 128 registers of C per lane, enough to do for each warp."""
    for rows, columns in product((1, 2, 3, 4), repeat=2):
        warps_m, warps_n = up(high, rows), up(wide, columns)
        same = up(high, warps_m) == rows and up(wide, warps_n) == columns
        enough = rows * columns * words >= 2 or warps_m * warps_n == 1
        if same and enough and rows * columns * words <= 8 and min(4, high * wide // 4) <= warps_m * warps_n <= 16:
            yield warps_m, warps_n


def block_candidates(problem: Problem) -> Iterator[Block]:
    """The same on the ordinary units."""
    words, vector = problem.itemsize // 4, 16 // problem.itemsize
    most = ((96, 96), (64, 64), (32, 64), (32, 32))
    tiles = [(balanced(problem.M, high, 4), balanced(problem.N, wide, 4)) for high, wide in most]
    operand_bytes = (problem.M + problem.N) * problem.K * problem.itemsize
    depths = [up(problem.K, vector) * vector] if operand_bytes <= _WHOLE_BYTES // 2 else []
    depths += [depth for depth in (8, 16) if depth < problem.K and operand_bytes > 16 << 10]
    for (m, n), depth in product(dict.fromkeys(tiles), depths):
        for dim_x, dim_y in ((8, 4), (8, 8), (16, 4), (16, 8), (16, 16)):
            if not 6 <= up(m, dim_y) * up(n, dim_x) * words <= 96:
                continue
            for stages, out in _ways(m >= problem.M and n >= problem.N, depth >= problem.K):
                yield Block(dim_x, dim_y, m, n, depth, max(1, 64 // (dim_x * dim_y)), stages, out)
