"""The `stream` configurations: what each parameter means, their rules and their candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Numbers, Range
from ...common.configs import OnGpu, up
from .space_panels import balanced
from .work_stream import SPLIT, stream_shape

_MOST_TILES = 8  # tiles of 16 x 16 per warp: their sums are half of the registers that a thread can have
_SHALLOWEST = 16  # terms of a sum from which three TF32 products, 28 u off at most each, keep to twice the bound K u
_NARROW = 16  # rows or columns of C that one tile of a warp covers: tiles are long then
_SPLIT_STEP = 8  # values of k per TF32 instruction


@dataclass(frozen=True)
class Stream(OnGpu):
    """Blocks of warps with tensor cores, panels through a ring with one barrier each; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "stream"
    WARPS_M: int = 2  # warps of a block along the rows of C
    WARPS_N: int = 2  # and along its columns
    BLK_M: Annotated[int, Range(1, 16384)] = 64  # rows of a tile of C
    BLK_N: Annotated[int, Range(1, 16384)] = 64  # its columns
    BLK_K: Annotated[int, Range(1, 16384)] = 16  # columns of A per panel
    KSTEP: Annotated[int, Numbers(4, 8, 16)] = 8  # values of k per instruction
    STAGES: Annotated[int, Range(1, 16)] = 3  # places of the ring: one panel is multiplied, the others are under way
    BLOCKS_PER_SM: int = 1


def illegal(problem: Problem, c: Stream, device: Device) -> str | None:
    """Why the configuration cannot be used for a problem with a row-major C; resources apart."""
    if min(value for value in vars(c).values() if isinstance(value, int)) < 1 or c.STAGES < 2:
        return f"STAGES={c.STAGES} is less than 2, or a count is not positive"
    is_split = problem.dtype in SPLIT
    if device.capability < (80 if is_split else 90):
        return f"needs m16n8 tensor-core instructions for {problem.dtype}, the device is {device.arch}"
    if c.KSTEP not in ((_SPLIT_STEP,) if is_split else (4, 8, 16)):
        return f"KSTEP={c.KSTEP}: 4, 8 or 16 values of k in double precision, {_SPLIT_STEP} in single precision"
    if is_split and problem.K < _SHALLOWEST:
        return f"sums of {problem.K} products are less accurate as TF32 products; {_SHALLOWEST} and more are not"
    vector = 16 // problem.itemsize
    if any(size % vector for size in (c.BLK_M, c.BLK_N, c.BLK_K)):
        return f"BLK_M, BLK_N, BLK_K are not multiples of the {vector} elements of 16 bytes"
    shape = stream_shape(problem, c)
    if shape.tiles > 1 and (c.BLK_M % 16 or c.BLK_N % 16):
        return "tiles of a part of C have whole multiples of 16 rows and columns"
    if (c.WARPS_M - 1) * shape.rows * 16 >= shape.m or (c.WARPS_N - 1) * shape.columns * 16 >= shape.n:
        return f"{c.WARPS_M} x {c.WARPS_N} warps are more than a tile of {shape.m} x {shape.n} needs"
    slots = [count for count in (shape.rows, shape.columns) if count > 1 and count % 2]
    if is_split and slots:
        return f"{slots[0]} tiles of 16 along one side: `Spread` takes one or an even number of them"
    return None


def candidates(problem: Problem) -> Iterator[Stream]:
    """Tiles of C from a whole matrix down to 64 x 64, a few shapes of warps each, whole operands and panels."""
    words = 2 if problem.is_complex else 1
    is_split = problem.dtype in SPLIT
    step = _SPLIT_STEP if is_split else 4 if problem.is_complex or problem.K < 8 else 8
    sides = [(128, 128), (128, 64), (64, 64)]
    sides += [(256, 16)] if problem.N <= _NARROW else [(16, 256)] if problem.M <= _NARROW else []
    tiles = dict.fromkeys((balanced(problem.M, a, 16), balanced(problem.N, b, 16)) for a, b in sides)
    for m, n in tiles:
        for warps, (depth, stages) in product(warps_of(m // 16, n // 16, words, is_split), _ways(problem, m, n)):
            yield Stream(*warps, m, n, depth, step, stages)


def _ways(problem: Problem, m: int, n: int) -> list[tuple[int, int]]:
    """Columns of A per panel, and places of the ring: whole operands where two fit, panels where operands are large."""
    whole = up(problem.K, 4) * 4
    operand_bytes = (min(m, problem.M) + min(n, problem.N)) * problem.K * problem.itemsize
    found = [(whole, stages) for stages in (2, 3) if stages * operand_bytes <= _RING_BYTES]
    deep = [(16, 3), (16, 5), (32, 3)] if operand_bytes > _PANEL_BYTES else []
    return found + [(depth, stages) for depth, stages in deep if depth < problem.K]


_RING_BYTES = 200 << 10  # whole operands under way; beside them are the strips
_PANEL_BYTES = 16 << 10  # operands that are worth cutting into panels: less is on its way all at once


def warps_of(high: int, wide: int, words: int, is_split: bool) -> list[tuple[int, int]]:
    """Warps along the rows and columns of a block for a tile of high x wide tiles of 16: the three shapes that compute
    little for nothing, and read few fragments per product."""
    found = {}
    for rows, columns in product((1, 2, 4) if is_split else (1, 2, 3, 4), repeat=2):
        warps_m, warps_n = up(high, rows), up(wide, columns)
        same = up(high, warps_m) == rows and up(wide, warps_n) == columns
        if same and rows * columns * words <= _MOST_TILES and warps_m * warps_n <= _MOST_WARPS:
            waste = rows * warps_m * columns * warps_n / (high * wide)
            quarters = max(4, up(warps_m * warps_n, 4) * 4) / (warps_m * warps_n)  # of a multiprocessor: one waits
            found[warps_m, warps_n] = waste * quarters ** 0.5 * (1 + (1 / rows + 1 / columns) / 4)
    return sorted(found, key=lambda warps: found[warps])[:3]


_MOST_WARPS = 16  # of a block: more of them have no registers for two tiles each
