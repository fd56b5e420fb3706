"""What the `tensor` configurations of trsm are and cost: the part of work.py that is theirs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common.configs import up
from .systems import system

WIDEST = 256  # unknowns: of more, few blocks of threads fit into shared memory
# Clocks until two rows are known and their quad knows them, of a step beside its rows, and of a product, with 16
# columns per warp; and what each 16 more add. Counted from the instructions, not measured.
_PAIR_CLOCKS, _STEP_CLOCKS, _PRODUCT_CLOCKS, _TILE_PERCENT = 120, 300, 60, 25
# Clocks of a multiprocessor's shared memory: a warp reads the block on the diagonal, and for each eight columns
# shuffles, reads B, writes X and copies; a product reads a block of A, and for each eight columns X. The clock under
# load.
_DIAGONAL, _EIGHT, _BLOCK_OF_A, _BLOCK_OF_X, _CLOCK = 40, 36, 4, 4, 1.75e9


@dataclass(frozen=True)
class TensorShape:
    """A ring of rows of 8 x 8 blocks of A and a ring of blocks of B; the kernel asserts that it agrees."""

    blocks: int  # along the diagonal
    tiles: int  # of columns, per matrix
    vectors: dict[str, int]  # entries of a line of A, B, X that are moved at once
    shared_bytes: int


@lru_cache(maxsize=8192)
def tensor_shape(problem: Problem, c: Any) -> TensorShape:
    blocks = up(problem.N, 8)
    shared = (c.STAGES * blocks * 64 + c.WARPS * c.EIGHTS * (blocks + c.STAGES - 1) * 64) * 8
    return TensorShape(blocks, up(problem.NRHS, _columns(c)), _vectors(problem), up(shared, 128) * 128)


def _columns(c: Any) -> int:
    """Columns of X per block of threads."""
    return int(8 * c.EIGHTS * c.WARPS)


def _vectors(problem: Problem) -> dict[str, int]:
    """Two where pairs of entries are on 16-byte boundaries: rows of A, columns of B and X, from the first one on."""
    what = system(problem)
    operands, whole = what.operands, problem.aligned and problem.N % 2 == 0 and not what.upper
    layouts = {"A": ("a", "row"), "B": ("b", "col"), "X": ("c", "col")}
    return {name: 2 if whole and _pairs(operands, side, layout) else 1 for name, (side, layout) in layouts.items()}


def _pairs(operands: Problem, side: str, layout: str) -> bool:
    return bool(getattr(operands, f"layout_{side}") == layout and getattr(operands, f"pitch_{side}") % 2 == 0)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated: a block on the diagonal, addresses; sums and B of every tile."""
    return int(72 + 24 * max(2, c.EIGHTS))


def limits(problem: Problem, c: Any, device: Device) -> dict[str, float]:
    """Seconds for the rows one after the other, with as many warps as there are under way, and of shared memory."""
    shape = tensor_shape(problem, c)
    beside = shape.blocks * (shape.blocks - 1) / 2
    waited = shape.blocks * (4 * _PAIR_CLOCKS + _STEP_CLOCKS) + beside * _PRODUCT_CLOCKS
    waited *= 1 + max(0, c.EIGHTS - 2) / 2 * _TILE_PERCENT / 100
    rounds = up(problem.BATCH * shape.tiles, device.multiprocessors * c.BLOCKS_PER_SM)
    moved = shape.blocks * (_DIAGONAL + c.EIGHTS * _EIGHT) + beside * (_BLOCK_OF_A + c.EIGHTS * _BLOCK_OF_X)
    moved *= c.WARPS * problem.BATCH * shape.tiles / device.multiprocessors
    return {"substitution": rounds * waited / _CLOCK, "shared memory": moved / _CLOCK}


def bytes_in_flight(problem: Problem, c: Any) -> float:
    """The next rows of A, half of them on average, and of B."""
    each = (c.STAGES - 1) * (4 * problem.N + 8 * min(problem.NRHS, _columns(c)))
    return float(c.BLOCKS_PER_SM * each * problem.itemsize)


def bandwidth_share(problem: Problem, c: Any) -> float:
    """Triangles are read once per tile of columns, from the cache but for the first time."""
    return 0.9 if tensor_shape(problem, c).vectors["B"] == 2 else 0.8


def executed_flops(problem: Problem, c: Any) -> float:
    """Flops of a matrix: blocks are square, and columns come in sixteens."""
    shape = tensor_shape(problem, c)
    return float(64 * shape.blocks * (shape.blocks + 1) * _columns(c) * shape.tiles)
