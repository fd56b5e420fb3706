"""What the `stream` configurations of trsm cost: the part of work.py that is theirs."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common.configs import up
from .systems import system
from .work_shapes import stream_shape

# Clocks until a row is known and the other lanes know it, and beside that for 32 rows and for a matrix; of a piece's
# products; instructions per 16-byte copy of a warp; the clock under load.
_ROW_CLOCKS, _BLOCK_CLOCKS, _MATRIX_CLOCKS, _PIECE_CLOCKS, _COPY_INSTRUCTIONS, _CLOCK = 110, 700, 500, 300, 7, 1.75e9


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated: a lane's entries of a piece, and what it divides by."""
    words, feed = problem.itemsize // 4, stream_shape(problem, c).feed
    fixed = 52 + 8 * problem.is_complex + 4 * (c.WARPS > 1) + {"lines": 0, "linear": 10, "elements": 8}[feed]
    return int(words * (c.BLK_K + 6) + fixed)


def limits(problem: Problem, c: Any, device: Device) -> dict[str, float]:
    """Seconds for issuing everything, and for a team's matrices one after the other."""
    rounds = up(problem.BATCH, device.multiprocessors * c.PER_BLOCK * c.BLOCKS_PER_SM)
    return {
        "instructions": issued(problem, c) * problem.BATCH / device.multiprocessors / 4 / _CLOCK,
        "substitution": rounds * waited(problem, c) / _CLOCK,
    }


def issued(problem: Problem, c: Any) -> float:
    """Instructions of all warps for a matrix."""
    shape, words = stream_shape(problem, c), 2 if problem.is_complex else 1
    vector = 1 if shape.feed == "elements" else 16 // problem.itemsize
    copied = c.BLK_K / vector * _COPY_INSTRUCTIONS + 40
    multiplied = c.BLK_K * (2 / shape.read + words * words)
    solved = words * (8 + 2 * words)
    return float(shape.pieces * (copied + multiplied + 20) + problem.N * solved + shape.blocks * 150)


def waited(problem: Problem, c: Any) -> float:
    """Clocks from the first to the last row of a matrix: a row waits for the one before it."""
    shape = stream_shape(problem, c)
    rows = problem.N * _ROW_CLOCKS + shape.blocks * _BLOCK_CLOCKS + _MATRIX_CLOCKS
    beside = shape.pieces - up(problem.N, c.BLK_K)
    alone = shape.blocks * 32 / c.BLK_K if c.WARPS > 1 else beside  # what is left to the warp that solves
    prepared = (beside - alone) / (c.WARPS - 1) if c.WARPS > 1 else 0
    return float(max(rows + alone * _PIECE_CLOCKS, prepared * _PIECE_CLOCKS + shape.blocks * _BLOCK_CLOCKS))


def bytes_in_flight(problem: Problem, c: Any) -> float:
    """Of a multiprocessor that is full; pieces on the diagonal are half empty."""
    shape = stream_shape(problem, c)
    of_piece = problem.N * (problem.N + 1) / 2 * problem.itemsize / shape.pieces
    return float(c.BLOCKS_PER_SM * c.PER_BLOCK * c.WARPS * of_piece * (c.STAGES - 1.3))


def bandwidth_share(problem: Problem, c: Any) -> float:
    """Short lines, lines that begin anywhere, and single elements cost some."""
    length = c.BLK_K if system(problem).operands.layout_a != "col" else 32
    short = 0.97 if length * problem.itemsize < 128 else 1.0
    return short * {"lines": 1.0, "linear": 0.95, "elements": 0.7}[stream_shape(problem, c).feed]


def executed_flops(problem: Problem, c: Any) -> float:
    """Flops of a matrix with those of idle lanes; quotients are computed in all lanes."""
    each = 8 if problem.is_complex else 2
    return float(each * 32 * (stream_shape(problem, c).pieces * c.BLK_K + 3 * problem.N))
