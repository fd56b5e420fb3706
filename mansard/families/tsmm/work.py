"""Bytes, flops, registers and shared memory of a tsmm problem and its configurations: what model and pruning use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any

from ...model.roofline import Work
from ...plan.problem import REAL, Problem


def work(problem: Problem) -> Work:
    """The least a tsmm product must move and compute: A read, W written (beta = 0)."""
    rows = problem.K * problem.itemsize
    return Work(
        read=rows * problem.M,
        written=rows * problem.N,
        flops=(8 if problem.is_complex else 2) * problem.M * problem.N * problem.K,
        dtype=problem.dtype,
    )


def _up(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class RingShape:
    """The numbers of `RingShape` in kernel_ring.cuh that decide legality; the kernel asserts that they agree."""

    threads: int
    step: int
    octets: int  # rows of a warp, eight at a time
    blocks_m: int  # of four real columns of A
    tiles_n: int  # of eight real columns of W, per warp
    clash: int  # rows whose reads meet in the same banks
    stage_bytes: int
    out_bytes: int
    small_bytes: int
    shared_bytes: int


@lru_cache(maxsize=4096)
def ring_shape(problem: Problem, c: Any) -> RingShape:
    words = 2 if problem.is_complex else 1
    real = problem.itemsize // words
    width_m, width_n, lda = problem.M * words, problem.N * words, problem.pitch_a * words
    step = 4 // gcd(lda, 4)
    blocks_m, blocks_n = _up(width_m, 4), _up(width_n, 8)
    small = blocks_m * blocks_n * (16 if words == 2 else 32) * 8 if c.SOURCE == "shared" else 0
    stage, out = c.ROWS * lda * real, c.ROWS * width_n * real
    head = _up(2 * c.GROUPS * c.STAGES * 8, 128) * 128
    shared = head + c.GROUPS * c.STAGES * stage + 128 + c.GROUPS * c.OUT * out + small
    return RingShape(
        threads=c.WARPS_K * c.WARPS_N * c.GROUPS * 32,
        step=step,
        octets=c.ROWS // 8 // c.WARPS_K,
        blocks_m=blocks_m,
        tiles_n=_up(blocks_n, c.WARPS_N),
        clash=gcd(step * lda // 4, 4 if real == 8 else 8),
        stage_bytes=stage,
        out_bytes=out,
        small_bytes=small,
        shared_bytes=_up(shared, 128) * 128,
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.BLOCK) if c.VARIANT == "threads" else ring_shape(problem, c).threads


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    if c.VARIANT == "ring":
        return ring_shape(problem, c).shared_bytes
    return int(_up(problem.M * problem.N * problem.itemsize, 128) * 128) if c.SOURCE == "shared" else 128


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    if c.VARIANT == "ring":
        shape = ring_shape(problem, c)
        sums = shape.octets // 2 * shape.tiles_n * 8
        held = 2 * shape.blocks_m * shape.tiles_n if c.SOURCE == "registers" else 2 * shape.tiles_n
        turning = 4 * shape.octets * shape.clash if shape.clash > 1 else 2 * shape.octets
        return int(sums + held + turning) + 40
    per_element = problem.itemsize // 4
    results = _up(problem.N, c.PER_ROW)
    held = problem.M * results if c.SOURCE == "registers" else results
    return int(per_element * (c.UNROLL * (results + 1) + held)) + 24


def limits(problem: Problem, c: Any, device: Any, machine: Any) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    seconds = {"arithmetic": executed_flops(problem, c) / unit_rate(problem, c, machine)}
    if c.VARIANT == "threads":  # every thread of a row reads all of it, and C unless it holds it
        words = 2 if problem.is_complex else 1
        results = _up(problem.N, c.PER_ROW)
        from_c = 0 if c.SOURCE == "registers" else results / c.UNROLL
        loads = problem.K * c.PER_ROW * problem.M * (1 + from_c) * words / 32
        seconds["L1 cache"] = loads * _CLOCKS_PER_LOAD / device.multiprocessors / _CLOCK
        return seconds
    shape = ring_shape(problem, c)
    real = problem.itemsize // (2 if problem.is_complex else 1)
    # per 16 x WARPS_N rows: reads of A (twice, in halves for doubles) and of C', results laid down and carried out
    reads = shape.blocks_m * (shape.octets * (real // 4) + (0 if c.SOURCE == "registers" else 2 * shape.tiles_n))
    passes = problem.K / (shape.octets * 8) * c.WARPS_N * (reads + shape.octets * shape.tiles_n)
    seconds["shared memory"] = passes / device.multiprocessors / _CLOCK
    chunks = problem.K / c.ROWS / device.multiprocessors
    seconds["teams"] = chunks * _CHUNK_SECONDS / c.GROUPS
    return seconds


# Guessed from gram's on an H200, until this family is measured: handling a chunk, the clock under load.
_CHUNK_SECONDS, _CLOCK, _CLOCKS_PER_LOAD = 0.4e-6, 1.75e9, 4


def reduction_seconds(problem: Problem, c: Any, device: Any, machine: Any) -> float:
    """There is nothing to agree on."""
    return 0.0


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a variant's way of loading reaches."""
    if c.VARIANT == "threads":
        return 0.85
    chunk = ring_shape(problem, c).stage_bytes
    return (chunk / (chunk + 200)) * (1.0 if c.OUT else 0.9)


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    if c.VARIANT == "ring":
        return int(c.BLOCKS_PER_SM * c.GROUPS * (c.STAGES - 1) * ring_shape(problem, c).stage_bytes)
    return int(c.BLOCKS_PER_SM * c.BLOCK // c.PER_ROW * c.UNROLL * min(8, problem.M) * problem.itemsize)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does: tensor-core tiles are 16 x 8 x 4 whether they are full or not."""
    if c.VARIANT == "threads":
        per_row = problem.M * _up(problem.N, c.PER_ROW) * c.PER_ROW
        return int(per_row * (8 if problem.is_complex else 2) * problem.K)
    shape = ring_shape(problem, c)
    return int(2 * problem.K * shape.blocks_m * 4 * shape.tiles_n * c.WARPS_N * 8)


def unit_rate(problem: Problem, c: Any, machine: Any) -> float:
    """Flops per second of the unit the variant computes with."""
    if c.VARIANT == "threads":
        return float(machine.fma[REAL[problem.dtype]])
    return 0.85 * float(machine.tensor.get("float64", machine.fma["float64"]))
