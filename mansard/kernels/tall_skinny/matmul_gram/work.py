"""Bytes, flops, registers and shared memory of a matmul_gram problem and its configurations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common.configs import up
from ..tsmm.work import banks


def work(problem: Problem) -> Work:
    """The least that must be moved and computed: A read, W written, half of G formed."""
    rows = problem.K * problem.itemsize
    per_product = 8 if problem.is_complex else 2
    products = problem.M * problem.N + problem.N * (problem.N + 1) // 2
    return Work(rows * problem.M, rows * problem.N, per_product * products * problem.K, problem.dtype)


@dataclass(frozen=True)
class Shape:
    """The numbers of `FusedShape` in kernel_ring.cuh that decide legality; the kernel asserts that they agree."""

    words: int  # per element
    step: int
    clash: int
    octets: int  # rows of a warp and pass, eight at a time
    blocks: int  # of eight words of a row of A
    tiles: int  # of 16 real columns of W
    products: int  # tiles of G
    stage_bytes: int
    out_bytes: int
    small_bytes: int
    shared_bytes: int


@lru_cache(maxsize=4096)
def shape(problem: Problem, c: Any) -> Shape:
    words = 2 if problem.is_complex else 1
    real, lda = problem.itemsize // words, problem.pitch_a * words
    step, clash = banks(lda, real)
    blocks, tiles = up(problem.M * words, 8), up(problem.N * words, 16)
    slots = 2 * tiles if words == 2 else up(problem.N, 8)
    pairs = up(slots, 2)
    stage, out = c.ROWS * lda * real, c.ROWS * problem.N * problem.itemsize
    small = blocks * (tiles if words == 2 else 2 * tiles) * 512
    ring = up(2 * c.GROUPS * c.STAGES * 8, 128) * 128 + c.GROUPS * c.STAGES * stage + 128
    meeting = 16 * pairs * (16 * pairs + 1) * 8  # at least one tile of G
    return Shape(
        words=words,
        step=step,
        clash=clash,
        octets=c.ROWS // 8 // c.WARPS_K // c.PASSES,
        blocks=blocks,
        tiles=tiles,
        products=pairs * (slots - pairs + 1),
        stage_bytes=stage,
        out_bytes=out,
        small_bytes=small,
        shared_bytes=up(max(ring + c.GROUPS * c.OUT * out + small, meeting, threads(problem, c) * 16), 128) * 128,
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.WARPS_K * c.GROUPS * 32)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    return shape(problem, c).shared_bytes


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    size = shape(problem, c)
    real = problem.itemsize // size.words // 4
    pairs = size.octets * size.clash * 2 * real
    return int(1.15 * (8 * size.octets * size.tiles + 8 * size.products + pairs)) + 48


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    size = shape(problem, c)
    real = problem.itemsize // size.words
    moved = problem.K * problem.itemsize * (problem.M + problem.N) / 128
    # per pass of a warp: A, C, and results laid down one by one, four rows in the same banks
    of_pass = size.blocks * (size.octets * (real // 2) + 4 * size.tiles * (3 - size.words))
    of_pass += 4 * size.octets * size.tiles * real
    reads = problem.K / (size.octets * 8) * of_pass
    waits = _CHUNK_SECONDS * (2 if c.OUT == 1 else 1) + c.PASSES * (_PASS_SECONDS + size.blocks * _BLOCK_SECONDS)
    arithmetic = executed_flops(problem, c) / unit_rate(problem, c, machine)
    return {
        "arithmetic": arithmetic,
        "shared memory": (moved + reads) / device.multiprocessors / _CLOCK,
        "teams": (problem.K / c.ROWS / device.multiprocessors * waits + arithmetic / _ALONE) / c.GROUPS,
    }


# As tsmm's, with longer passes; not measured here.
_CHUNK_SECONDS, _PASS_SECONDS, _BLOCK_SECONDS, _ALONE, _CLOCK = 0.4e-6, 0.24e-6, 0.024e-6, 0.75, 1.75e9


def reduction_seconds(problem: Problem, c: Any, device: Device, machine: Machine) -> float:
    """What it takes the blocks to agree on G."""
    entries = problem.N * problem.N * (16 if problem.is_complex else 8)
    rate = 2e12 if c.REDUCE == "sliced" else 2e10  # bytes of partial sums per second: by all blocks, or by the last one
    return float(machine.grid_barrier_seconds + device.multiprocessors * entries / rate)


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that the way of loading reaches."""
    chunk = shape(problem, c).stage_bytes
    return chunk / (chunk + 200)


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once."""
    return int(c.GROUPS * (c.STAGES - 1) * shape(problem, c).stage_bytes)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does, tiles full or not."""
    size = shape(problem, c)
    return int(2 * problem.K * (size.blocks * 8 * size.tiles * 16 + size.products * 128))


def unit_rate(problem: Problem, c: Any, machine: Machine) -> float:
    """Flops per second of the tensor cores."""
    return 0.85 * float(machine.tensor.get("float64", machine.fma["float64"]))
