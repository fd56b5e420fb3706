"""Shared memory, registers and limits of `gram`'s warpgroups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....plan.problem import Problem
from ...common.configs import up

_CLOCK = 1.7e9  # under load
_SUSTAINED = 1.75  # of the rate of multiply-adds: what three TF32 products reach in warpgroups
_CHUNK_SECONDS = 0.25e-6  # a team's barrier, and the tensor cores' first step behind it
_STEP_CLOCKS = 200  # from one step of a team to the next, however little there is to multiply


@dataclass(frozen=True)
class GroupShape:
    """The numbers of `GroupShape` in kernel_group.cuh that decide legality; the kernel asserts that they agree."""

    threads: int
    blocks: int  # of 64 real columns of A: warpgroups of a team
    tiles: int  # of eight real columns of B
    step: int
    clash: int  # rows of a quad whose reads meet in the same banks
    stage_bytes: int
    planes_bytes: int
    shared_bytes: int


@lru_cache(maxsize=4096)
def group_shape(problem: Problem, c: Any) -> GroupShape:
    words = 2 if problem.is_complex else 1
    blocks, tiles = up(problem.M * words, 64), up(problem.N * words, 8)
    lda, ldb = problem.pitch_a * words, problem.pitch_b * words
    step = max(8 // gcd(lda, 8), 8 // gcd(ldb, 8))
    stage = 4 * (_operand_words(c, lda) + (0 if problem.same else _operand_words(c, ldb)))
    ring = up(2 * c.GROUPS * c.STAGES * 8, 128) * 128 + c.GROUPS * c.STAGES * stage
    planes = c.GROUPS * 2 * (c.ROWS // 8) * 2 * tiles * 64 * 4
    threads = 4 * blocks * c.GROUPS * 32
    slack = 4 * max(64 * blocks, 8 * tiles)
    tile = 64 * blocks * (8 * tiles + 1) * 8  # sums, where the ring was
    shared = max(up(ring + slack, 128) * 128 + planes, tile, threads * (16 if problem.is_complex else 8))
    clash = {0: 4, 16: 2}.get(step * lda % 32, 1)
    return GroupShape(threads, blocks, tiles, step, clash, stage, planes, up(shared, 128) * 128)


def _operand_words(c: Any, pitch: int) -> int:
    if c.SPREAD != "shift":
        return int(c.ROWS * pitch)
    piece = c.ROWS // 4 * pitch
    return int(4 * (piece + (8 - piece) % 32))


def registers(problem: Problem, c: Any) -> int:
    """Sums, those of a chain, and what a lane holds of A and B on their way."""
    return int(8 * group_shape(problem, c).tiles + 64)


def executed_flops(problem: Problem, c: Any) -> int:
    shape = group_shape(problem, c)
    return int(2 * 64 * shape.blocks * 8 * shape.tiles * problem.K)


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least."""
    shape, rows = group_shape(problem, c), problem.K / device.multiprocessors
    arithmetic = executed_flops(problem, c) / (_SUSTAINED * float(machine.fma["float32"]))
    # bytes of a row: copied in, fragments of A, B turned and laid down, B read for every product
    a, b = 256 * shape.blocks, 32 * shape.tiles
    moved = shape.stage_bytes / c.ROWS + a * (shape.clash if c.SPREAD == "none" else 1) + 3 * b + 3 * b * shape.blocks
    waits = rows / c.ROWS * _CHUNK_SECONDS / c.GROUPS
    return {
        "arithmetic": arithmetic + waits,
        "shared memory": rows * moved / 128 / _CLOCK,
        "teams": rows / 8 * _STEP_CLOCKS / _CLOCK / c.GROUPS + waits,
    }


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that bulk copies of this size reach, as for `ring`."""
    chunk = group_shape(problem, c).stage_bytes
    share = chunk / (chunk + (30 if problem.same else 60))
    return 0.93 * share if c.SPREAD == "shift" else share
