"""Bytes, flops, registers and shared memory of a tsmm problem and its configurations: what model and pruning use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import REAL, Problem
from ...common.configs import up
from . import work_columns


def work(problem: Problem) -> Work:
    """The least a tsmm product must move and compute: A read, W written (beta = 0)."""
    rows = problem.K * problem.itemsize
    return Work(
        read=rows * problem.M,
        written=rows * problem.N,
        flops=(8 if problem.is_complex else 2) * problem.M * problem.N * problem.K,
        dtype=problem.dtype,
    )


@dataclass(frozen=True)
class RingShape:
    """The numbers of pairs.cuh and kernel_ring.cuh that decide legality; the kernel asserts that they agree."""

    threads: int
    words: int  # per element
    step: int
    clash: int  # rows whose reads meet in the same banks
    octets: int  # rows of a warp and pass, eight at a time
    blocks: int  # of eight words of a row of A
    columns: int  # of W, eight at a time, per warp
    stage_bytes: int
    out_bytes: int
    small_bytes: int
    shared_bytes: int


def banks(lda: int, real: int) -> tuple[int, int]:
    """STEP and CLASH of `PairShape` in pairs.cuh: which rows lanes read, how many of them meet in the same banks."""
    segment = 4 if lda % 2 else 8
    step = segment // gcd(lda, segment)
    return step, gcd(step * lda // segment, 128 // (segment * real))


@lru_cache(maxsize=4096)
def ring_shape(problem: Problem, c: Any) -> RingShape:
    words = 2 if problem.is_complex else 1
    real = problem.itemsize // words
    lda = problem.pitch_a * words
    step, clash = banks(lda, real)
    blocks, columns = up(problem.M * words, 8), up(up(problem.N, 8), c.WARPS_N)
    if c.TURNED and words == 1:  # tiles of 16 columns
        columns = 2 * up(up(problem.N, 16), c.WARPS_N)
    staged = c.UNIT != "fma" and c.SOURCE == "shared"
    small = blocks * columns * c.WARPS_N * 512 if staged else 0
    if c.PRODUCTS == 3:  # neither split nor repeated
        small = up(blocks, 2) * columns * c.WARPS_N * 512
    if c.UNIT == "wgmma":  # split, in steps of eight columns of A, on a boundary of their own
        small = up(blocks, words) * columns * words * 512 + 128
    stage, out = c.ROWS * lda * real, c.ROWS * problem.N * problem.itemsize
    head = up(2 * c.GROUPS * c.STAGES * 8, 128) * 128
    shared = head + c.GROUPS * c.STAGES * stage + 128 + c.GROUPS * c.OUT * out + small
    return RingShape(
        threads=c.WARPS_K * c.WARPS_N * c.GROUPS * 32,
        words=words,
        step=step,
        clash=clash,
        octets=c.ROWS // 8 // c.WARPS_K // c.PASSES,
        blocks=blocks,
        columns=columns,
        stage_bytes=stage,
        out_bytes=out,
        small_bytes=small,
        shared_bytes=up(shared, 128) * 128,
    )


def rows_of_block(c: Any) -> int:
    """Rows that a block works on at once."""
    if c.VARIANT == "columns":
        return int(c.GROUPS * c.ROWS)
    if c.VARIANT == "fragment":
        return int(16 * c.TILES * c.WARPS)
    return int(c.GROUPS * c.ROWS if c.VARIANT == "ring" else c.BLOCK // c.PER_ROW * c.UNROLL)


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    if c.VARIANT == "columns":
        return work_columns.threads(c)
    if c.VARIANT == "fragment":
        return int(c.WARPS * 32)
    return int(c.BLOCK) if c.VARIANT == "threads" else ring_shape(problem, c).threads


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    if c.VARIANT == "columns":
        return work_columns.shared_bytes(problem, c)
    if c.VARIANT == "ring":
        return ring_shape(problem, c).shared_bytes
    if c.VARIANT == "fragment":
        return 0
    return int(up(problem.M * problem.N * problem.itemsize, 128) * 128) if c.SOURCE == "shared" else 128


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    if c.VARIANT == "columns":
        return work_columns.registers(problem, c)
    if c.VARIANT == "ring":
        return _ring_registers(problem, c)
    if c.VARIANT == "fragment":  # the rows, what of C meets them, sums
        words = 2 if problem.is_complex else 1
        blocks = up(problem.M * words, 8)
        return int(8 * blocks * c.TILES + 4 * max(blocks, min(16, blocks * up(problem.N, 8))) + 16 * c.TILES) + 32
    per_element = problem.itemsize // 4
    results = up(problem.N, c.PER_ROW)
    held = problem.M * results if c.SOURCE == "registers" else results
    return int(per_element * (c.UNROLL * (results + 1) + held)) + 24


_UNROLLED = 8  # rows of C whose products `threads` unrolls


def unfitted_registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread on GPUs to which `registers` was not fitted. Where the loop over the rows of C is
    unrolled as a whole, the compiler keeps C in registers, whatever its source."""
    found = registers(problem, c)
    if c.VARIANT != "threads" or problem.M > _UNROLLED:
        return found
    results = up(problem.N, c.PER_ROW)
    return max(found, int(problem.itemsize // 4 * (c.UNROLL * (results + 1) + problem.M * results)) + 12)


def _ring_registers(problem: Problem, c: Any) -> int:
    shape = ring_shape(problem, c)
    real = problem.itemsize // shape.words // 4
    if c.UNIT == "fma":
        rows = shape.octets // 4
        return int(shape.words * real * (problem.M * problem.N + rows * (problem.N + problem.pitch_a))) + 40
    tiles = shape.octets // 2 * shape.columns * shape.words
    pairs = shape.octets * shape.clash * 2 * real
    if c.PRODUCTS == 3:  # of a plane both halves, of the others one
        tiles = tiles * 3 // 2
        pairs = shape.octets * max(2, shape.clash) * 3 * real
    if c.UNIT in ("tf32x3", "wgmma"):  # both halves of the rows
        return int(1.15 * (4 * tiles + pairs + 4 * shape.octets + 4 * shape.columns)) + 40
    held = 4 * shape.blocks * shape.columns if c.SOURCE == "registers" else 4 * shape.columns
    return int(1.15 * (8 * tiles + pairs + held + (4 * shape.octets if real == 1 else 0))) + 40


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    if c.VARIANT == "columns":
        return work_columns.limits(problem, c, device, machine)
    seconds = {"arithmetic": executed_flops(problem, c) / unit_rate(problem, c, machine)}
    if c.VARIANT == "threads":  # every thread of a row reads all of it, and C unless it holds it
        words = 2 if problem.is_complex else 1
        results = up(problem.N, c.PER_ROW)
        from_c = 0 if c.SOURCE == "registers" else results / c.UNROLL
        loads = problem.K * c.PER_ROW * problem.M * (1 + from_c) * words / 32
        seconds["L1 cache"] = loads * _CLOCKS_PER_LOAD / device.multiprocessors / _CLOCK
        seconds["stores"] = _pieces_stored(problem, c) * _CLOCKS_PER_PIECE / device.multiprocessors / _CLOCK
        return seconds
    if c.VARIANT == "fragment":  # every warp reads all of C for its rows
        loads = up(problem.K, 16 * c.TILES) * up(problem.M, 4) * up(problem.N, 8) * 2
        seconds["L1 cache"] = loads * _CLOCKS_PER_LOAD / device.multiprocessors / _CLOCK
        return seconds
    shape = ring_shape(problem, c)
    real = problem.itemsize // shape.words
    moved = problem.K * problem.itemsize * (problem.M + problem.N) / 128  # into shared memory and out of it
    if c.UNIT == "fma":  # rows are read and written once, in pieces that mostly do not clash
        reads = 1.3 * moved
    else:  # per pass of a warp: A, C, and results laid down
        from_c = 4 * shape.columns if c.SOURCE == "shared" else 0
        if c.PRODUCTS == 3:
            from_c = 2 * shape.columns
        elif c.UNIT == "wgmma":  # each half for 64 rows at once, the high one twice
            from_c = 1.5 * shape.columns * shape.words
        of_pass = shape.blocks * (shape.octets * (real // 2) + from_c)
        laid = shape.octets * shape.columns * problem.itemsize // 2
        of_pass += laid * (4 if c.TURNED else 1)  # four rows in the same banks
        reads = problem.K / (shape.octets * 8) * c.WARPS_N * of_pass
    seconds["shared memory"] = (moved + reads) / device.multiprocessors / _CLOCK
    if real == 4 and c.UNIT == "float64":  # numbers widened and narrowed, sixteen at a time
        converted = 8 * c.WARPS_N * (shape.blocks + shape.columns * shape.words)
        seconds["conversions"] = problem.K * converted / 16 / device.multiprocessors / _CLOCK
    chunks = problem.K / c.ROWS / device.multiprocessors
    waits = _CHUNK_SECONDS * (1 if c.OUT > 1 else 2) + c.PASSES * (_PASS_SECONDS + shape.blocks * _BLOCK_SECONDS)
    # a team waits, then multiplies; with few of them nobody fills the gaps, and one alone does not fill the units
    alone = 0.0 if c.UNIT == "fma" else seconds["arithmetic"] / _ALONE
    seconds["teams"] = (chunks * waits + alone) / c.GROUPS
    return seconds


def _pieces_stored(problem: Problem, c: Any) -> float:
    """Pieces of 32 bytes that the stores of `threads` touch, each time: a store is one result of 32 / PER_ROW rows."""
    rows = 32 / c.PER_ROW
    of_row = up(c.PER_ROW * problem.itemsize, 32)
    of_store = min(rows * of_row, rows * problem.pitch_w * problem.itemsize / 32)
    return float(problem.K * up(problem.N, c.PER_ROW) / rows * max(1.0, of_store))


# What a team waits per chunk, pass and block of eight words; the share of the units that one team can use; the clock
# under load. Fitted by eye to some 70 trials on an H200, assumed of other GPUs.
_CHUNK_SECONDS, _PASS_SECONDS, _BLOCK_SECONDS, _ALONE = 0.4e-6, 0.12e-6, 0.024e-6, 0.75
_CLOCK, _CLOCKS_PER_LOAD = 1.75e9, 4
_CLOCKS_PER_PIECE = 4.5  # float32 8 x 32, a thread per row: 71 us for 100 000 rows


def reduction_seconds(problem: Problem, c: Any, device: Device, machine: Machine) -> float:
    """There is nothing to agree on, but a ring and C have to be set up."""
    return {"ring": 3e-6, "columns": 2e-6, "threads": 1e-6}.get(c.VARIANT, 0.0)


def is_short(problem: Problem) -> bool:
    """So few rows that the set-up counts, and the caches may hold them."""
    return bool(problem.K * (problem.M + problem.N) * problem.itemsize < 32 << 20)


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a variant's way of loading reaches."""
    if c.VARIANT == "columns":
        return work_columns.SHARE
    if c.VARIANT != "ring":
        return 0.85
    chunk = ring_shape(problem, c).stage_bytes
    return (chunk / (chunk + 200)) * (1.0 if problem.pitch_w == problem.N else 0.9)


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    if c.VARIANT == "columns":
        return work_columns.bytes_in_flight(problem, c)
    if c.VARIANT == "ring":  # a stage that carries its results out is refilled late
        waiting = c.STAGES - (1.5 if c.OUT == 0 and problem.pitch_w == problem.N else 1)
        return int(c.BLOCKS_PER_SM * c.GROUPS * waiting * ring_shape(problem, c).stage_bytes)
    if c.VARIANT == "fragment":
        return int(16 * 16 * c.TILES * problem.M * problem.itemsize)  # about sixteen warps
    return int(c.BLOCKS_PER_SM * c.BLOCK // c.PER_ROW * c.UNROLL * min(8, problem.M) * problem.itemsize)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does: tensor-core tiles are 16 x 8 x 4 whether they are full or not."""
    if c.VARIANT == "threads":
        per_row = problem.M * up(problem.N, c.PER_ROW) * c.PER_ROW
        return int(per_row * (8 if problem.is_complex else 2) * problem.K)
    if c.VARIANT == "fragment" or c.UNIT == "fma":
        return work(problem).flops
    shape = ring_shape(problem, c)
    products = 3 * up(shape.blocks, 2) if c.PRODUCTS == 3 else shape.words * shape.blocks
    return int(2 * problem.K * products * 8 * shape.columns * c.WARPS_N * 8)


def unit_rate(problem: Problem, c: Any, machine: Machine) -> float:
    """Flops per second of the unit the variant computes with."""
    if c.VARIANT == "fragment":
        return 0.7 * float(machine.tensor.get("float64", machine.fma["float64"]))
    if c.VARIANT == "threads" or c.UNIT == "fma":
        return float(machine.fma[REAL[problem.dtype]])
    warps = threads(problem, c) / 32
    if c.UNIT == "wgmma":  # runs ahead of its warps
        return 1.8 * float(machine.fma["float32"])
    busy = warps / (warps + 2.5) * 14.5 / 12  # few warps have nobody to hide behind; fitted to 4 to 12 of them
    if c.UNIT == "tf32x3":  # more to split and to add per product, with three of them
        return busy * (1.1 if c.PRODUCTS == 4 else 0.9) * float(machine.fma["float32"])
    rearranged = (0.76 if c.TURNED else 0.72) if problem.is_complex else 0.85  # moves between reads and instructions
    return busy * rearranged * float(machine.tensor.get("float64", machine.fma["float64"]))
