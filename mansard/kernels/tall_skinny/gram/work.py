"""Bytes, flops, registers and shared memory of a gram problem and its configurations: what model and pruning use."""

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
from . import work_columns, work_group

_BY_COLUMNS = ("columns", "entries")
_RINGS = ("ring", *_BY_COLUMNS, "thirds", "group")  # fed by a ring of bulk copies


def work(problem: Problem, unit: str | None = None) -> Work:
    """The least a gram product must move and compute; `same` reads one operand and needs half the products."""
    columns = problem.M + (0 if problem.same else problem.N)
    factor = 8 if problem.is_complex else 2
    flops = factor * problem.M * problem.N * problem.K
    if problem.same:
        flops = factor * problem.M * (problem.M + 1) // 2 * problem.K
    return Work(
        read=problem.K * columns * problem.itemsize,
        written=problem.M * problem.N * problem.itemsize,
        flops=flops,
        dtype=problem.dtype,
    )


def real_widths(problem: Problem, fold: int) -> tuple[int, int, int]:
    """Real words per element, and the real columns of `fold` rows of A and of B."""
    words = 2 if problem.is_complex else 1
    return words, fold * problem.M * words, fold * problem.N * words


def columns_of(problem: Problem, c: Any) -> tuple[int, int, int]:
    """Words per element, and columns of A and of B, as the kernel sees them: `thirds` has complex words."""
    return (1, problem.M, problem.N) if c.VARIANT == "thirds" else real_widths(problem, c.FOLD)


@dataclass(frozen=True)
class RingShape:
    """The numbers of `RingShape` in kernel_ring.cuh, or `ThirdsShape` in kernel_thirds.cuh, that decide legality; the
    kernel asserts that they agree."""

    threads: int
    quads: int
    step: int
    slots_m: int  # per warp, of eight columns each
    slots_n: int
    shared_bytes: int
    stage_bytes: int
    clash_a: int  # rows of a quad whose reads meet in the same banks
    clash_b: int
    tiles: int  # products of 16 x 8 that a warp forms in a step


@lru_cache(maxsize=4096)
def ring_shape(problem: Problem, c: Any) -> RingShape:
    words, width_m, width_n = columns_of(problem, c)
    sum_bytes = 16 if problem.is_complex else 8
    real = problem.itemsize // words
    lda, ldb = (width_m, width_n) if c.FOLD > 1 else (problem.pitch_a * words, problem.pitch_b * words)
    team = c.WARPS_M * c.WARPS_N * c.WARPS_K
    threads = (team * c.GROUPS + (c.FEED == "producer")) * 32
    quarter = 32 // real
    step = max(quarter // gcd(lda, quarter), quarter // gcd(ldb, quarter))
    slots_m, slots_n = up(up(width_m, 8), c.WARPS_M), up(up(width_n, 8), c.WARPS_N)
    if c.TRIANGLE:
        slots_m = slots_n = up(width_m, 16) * 2
    stage = _operand_words(c, lda, quarter) + (0 if problem.same else _operand_words(c, ldb, quarter))
    block_m, block_n = (slots_m * 8, slots_n * 8) if c.TRIANGLE else (slots_m * c.WARPS_M * 8, slots_n * c.WARPS_N * 8)
    barriers = up(2 * c.GROUPS * c.STAGES * 8, 128) * 128
    ring = barriers + (c.GROUPS * c.STAGES * stage + max(block_m, block_n)) * real
    # the teams' sums meet in as many tiles as the ring's memory holds
    tile = block_m * (block_n + 1) * (sum_bytes // words)
    shared = up(max(ring, tile, threads * sum_bytes), 128) * 128
    clash_a, clash_b = (_clashing_rows(step * ld, real) for ld in (lda, ldb))
    quads, tiles = c.ROWS // 4 // c.WARPS_K, _tiles(problem, c, slots_m, slots_n)
    return RingShape(threads, quads, step, slots_m, slots_n, shared, stage * real, clash_a, clash_b, tiles)


def _tiles(problem: Problem, c: Any, slots_m: int, slots_n: int) -> int:
    """As `Turn` and `Tiling` in slots.cuh count them."""
    if c.TRIANGLE:
        pairs = slots_m // 2
        turns = pairs // c.WARPS_M
        opposite = 0 if pairs % 2 else turns if turns % 2 else turns // 2
        return int(2 * (turns * ((pairs + 1) // 2) + opposite))
    if _alone(problem, c):  # slots read four at a time interleave, and two more of them reach above the diagonal
        return int(sum(slots_n - 2 * i + 2 * (i % 2) for i in range(slots_m // 2)) + slots_m % 2)
    return int(slots_m // 2 * slots_n + slots_m % 2 * up(slots_n, 2))


def _operand_words(c: Any, pitch: int, quarter: int) -> int:
    if c.SPREAD != "shift":
        return int(c.ROWS * pitch)
    piece = c.ROWS // 4 * pitch
    return int(4 * (piece + (quarter - piece) % (4 * quarter)))


def _clashing_rows(lane_stride: int, real: int) -> int:
    banks = 128 // real
    return 4 if lane_stride % banks == 0 else 2 if lane_stride % (banks // 2) == 0 else 1


def shape_of(problem: Problem, c: Any) -> Any:
    """The numbers of a kernel that is fed by a ring."""
    if c.VARIANT == "group":
        return work_group.group_shape(problem, c)
    return work_columns.columns_shape(problem, c) if c.VARIANT in _BY_COLUMNS else ring_shape(problem, c)


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    if c.VARIANT == "tiled":
        return int(c.BLOCK)
    if c.VARIANT == "fragment":
        return int(c.WARPS_M * c.WARPS_N * c.WARPS_K * 32)
    return int(shape_of(problem, c).threads)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    words, _, _ = real_widths(problem, getattr(c, "FOLD", 1))
    if c.VARIANT in _RINGS:
        return int(shape_of(problem, c).shared_bytes)
    if c.VARIANT == "fragment":
        tile = c.WARPS_K * c.WARPS_M * c.TILE_M * 8 * (c.WARPS_N * c.TILE_N * 8 + 1) * 8
        return int(-(-max(tile, threads(problem, c) * 8 * words) // 128) * 128)
    per_row = -(-problem.M // c.TILE_M) * -(-problem.N // c.TILE_N)
    staged = min(c.TILE_M * c.TILE_N, 8) * per_row * (c.BLOCK // per_row)
    return int(-(-(problem.M * problem.N + max(staged, c.BLOCK)) * problem.itemsize // 128) * 128)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated. For `tiled` the formula of Ernst et al.: the tile and one set of operands
    (leap-frogging: two), two registers per real number of eight bytes."""
    words = 2 if problem.is_complex else 1
    per_word = problem.itemsize // words // 4
    if c.VARIANT == "tiled":
        operands = (2 if c.LEAPFROG else 1) * c.UNROLL * (c.TILE_M + c.TILE_N)
        return int(words * per_word * (c.TILE_M * c.TILE_N + operands)) + 16
    if c.VARIANT == "fragment":
        reuse = problem.same and c.WARPS_M == c.WARPS_N == 1
        operands = 2 * c.DEPTH * (c.TILE_M + (0 if reuse else c.TILE_N)) * per_word
        return int(c.TILE_M // 2 * c.TILE_N * 8 + operands) + 24
    if c.VARIANT in (*_BY_COLUMNS, "group"):
        return int((work_columns if c.VARIANT in _BY_COLUMNS else work_group).registers(problem, c))
    shape = ring_shape(problem, c)
    tiles, operands = shape.tiles, shape.slots_m + (0 if _reads_once(problem, c) else shape.slots_n)
    rotates = c.SPREAD == "rotate" and max(shape.clash_a, shape.clash_b) > 1
    turning = 6 if rotates else 0  # addresses that differ from slot to slot
    if c.VARIANT == "thirds":
        return _thirds_registers(c, tiles, operands, turning)
    if c.UNIT == "tf32x3":  # sums, those of a chunk, and both halves of the operands
        return int(tiles * 8 + 4 * operands + turning) + 32
    return int(tiles * 8 + c.KSTEP // 4 * operands * 2 + turning) + 32


def _thirds_registers(c: Any, tiles: int, operands: int, turning: int) -> int:
    """Three sums, and complex operands (TF32: three sums of a chunk and two of all, both halves of a plane as well)."""
    if c.UNIT == "tf32x3":
        return tiles * 20 + 8 * operands + turning + 40
    return int(tiles * 24 + c.KSTEP // 4 * operands * 5 + turning) + 32


def _alone(problem: Problem, c: Any) -> bool:
    """Whether one warp sees all of A and leaves out half of A^H A."""
    return bool(problem.same and c.WARPS_M == c.WARPS_N == 1 and c.FOLD == 1 and not c.TRIANGLE)


def _reads_once(problem: Problem, c: Any) -> bool:
    """Whether a warp's slots of A are those of B too."""
    return bool(_alone(problem, c) or c.TRIANGLE)


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    if c.VARIANT == "group":
        return work_group.limits(problem, c, device, machine)
    seconds = {"arithmetic": executed_flops(problem, c) / unit_rate(problem, c, machine)}
    if c.VARIANT == "tiled":  # every thread loads its share of a row by itself, mostly from the L1 cache
        per_row = -(-problem.M // c.TILE_M) * -(-problem.N // c.TILE_N)
        loads = problem.K * per_row * (c.TILE_M + c.TILE_N) * (2 if problem.is_complex else 1) / 32
        seconds["L1 cache"] = loads * _CLOCKS_PER_LOAD / device.multiprocessors / _CLOCK
    if c.VARIANT in ("tiled", "fragment"):
        return seconds
    shape = shape_of(problem, c)
    fold = 1 if c.VARIANT in _BY_COLUMNS else c.FOLD  # folded rows of a matrix, or of a chunk
    chunks = -(-problem.K // (c.ROWS * fold)) / device.multiprocessors
    feeders = 1 if c.FEED == "producer" else c.GROUPS
    if c.VARIANT not in _BY_COLUMNS:
        slots, loads, reads, selects, copies = _ring_traffic(problem, c)
        feed = _CHUNK_SECONDS + copies * _COPY_SECONDS
    else:
        slots, loads, reads, selects, copies = work_columns.traffic(problem, c)
        feed = _CHUNK_SECONDS + copies * _NEXT_COPY_SECONDS
        seconds["busiest"] = work_columns.busiest_seconds(problem, c, device, machine)
    seconds["feed"] = chunks * feed / feeders
    # steps of four rows, over all warps of a multiprocessor
    quads = chunks * c.WARPS_M * c.WARPS_N * c.ROWS / 4 * fold / c.FOLD
    seconds["shared memory"] = quads * reads / _CLOCK
    # loads and selects take the tensor cores' turn to issue, and the fullest quarter of a multiprocessor is waited for
    warps = c.WARPS_M * c.WARPS_N * c.WARPS_K * c.GROUPS
    seconds["arithmetic"] += quads * (loads + selects) / 4 / _CLOCK
    seconds["arithmetic"] *= up(warps, 4) * 4 / warps
    planes = 3 if c.VARIANT == "thirds" else 1
    if c.UNIT == "tf32x3":  # two instructions split a number, three multiply
        seconds["issue"] = quads * (planes * (2 * slots + 1.5 * shape.tiles) + loads + selects) / 4 / _CLOCK
    elif REAL[problem.dtype] == "float32":
        seconds["widening"] = quads * planes * slots * 32 / _WIDENED_PER_CLOCK / _CLOCK
    return seconds


def _ring_traffic(problem: Problem, c: Any) -> tuple[int, float, float, float, int]:
    """Per warp and step of four rows: slots, instructions that read them, passes of 128 bytes, selects; and the copies
    of a chunk."""
    shape, real = ring_shape(problem, c), problem.itemsize // columns_of(problem, c)[0]
    sides = [(shape.slots_m, shape.clash_a), (shape.slots_n, shape.clash_b)][: 1 if _reads_once(problem, c) else 2]
    slots = sum(count for count, _ in sides)
    reads, selects = (real // 4 * sum(count(*side, c.SPREAD) for side in sides) for count in (passes, turns))
    return slots, slots, reads, selects, (1 if problem.same else 2) * (4 if c.SPREAD == "shift" else 1)


# Fitted on an H200, assumed of other GPUs: handling a chunk, issuing a bulk copy, the clock under load, and conversions
# to float64.
_CHUNK_SECONDS, _COPY_SECONDS, _CLOCK, _WIDENED_PER_CLOCK, _CLOCKS_PER_LOAD = 0.20e-6, 0.025e-6, 1.75e9, 16, 4
_NEXT_COPY_SECONDS = 0.008e-6  # of many copies issued one behind the other; counted instructions, not measured


def passes(slots: int, clash: int, spread: str) -> int:
    """Times 128 bytes that a warp needs to read its slots of 4-byte words, as `Slots` in slots.cuh groups them."""
    if spread != "rotate":
        return slots * (clash if spread == "none" else 1)
    fours = slots // 4 * 4 if clash == 4 else 0
    twos = slots // 2 * 2 if clash > 1 else 0
    return int(fours + (twos - fours) * max(1, clash // 2) + (slots - twos) * clash)


def turns(slots: int, clash: int, spread: str) -> int:
    """Selects per 4-byte word with which a warp puts slots right that it read in turns."""
    if spread != "rotate" or clash == 1:
        return 0
    fours = slots // 4 * 4 if clash == 4 else 0
    return int(2 * fours + slots // 2 * 2 - fours)


def reduction_seconds(problem: Problem, c: Any, device: Device, machine: Machine) -> float:
    """What it takes the blocks to agree, once they are done."""
    if c.REDUCE == "sliced":
        return 2.0 * float(machine.grid_barrier_seconds)
    sums = problem.M * problem.N * (16 if problem.is_complex else 8)
    return float(1e-6 + sums * device.multiprocessors * c.BLOCKS_PER_SM / _ONE_BLOCK_BANDWIDTH)


_ONE_BLOCK_BANDWIDTH = 55e9  # at which a single block reads what all the others have left in the L2 cache


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a variant's way of loading reaches; fitted on an H200, assumed of others."""
    if c.VARIANT in ("ring", "thirds"):  # a copy costs a little
        chunk = ring_shape(problem, c).stage_bytes
        share = chunk / (chunk + (30 if problem.same else 60))
        return 0.9 * share if c.SPREAD == "shift" else share
    if c.VARIANT in (*_BY_COLUMNS, "group"):
        return float((work_columns if c.VARIANT in _BY_COLUMNS else work_group).bandwidth_share(problem, c))
    if c.VARIANT == "tiled":
        return 0.85
    words = 2 if problem.is_complex else 1
    if "col" in (problem.layout_a, problem.layout_b):  # neighbouring lanes read different columns
        return 0.75
    return 0.93 if max(c.VECTOR, c.K_VECTOR) * problem.itemsize // words >= 16 else 0.7


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    words, _, _ = real_widths(problem, getattr(c, "FOLD", 1))
    if c.VARIANT in _RINGS:
        return int(c.BLOCKS_PER_SM * c.GROUPS * (c.STAGES - 1) * shape_of(problem, c).stage_bytes)
    if c.VARIANT == "fragment":
        slots = c.TILE_M + (0 if problem.same else c.TILE_N)
        return int(
            c.BLOCKS_PER_SM * c.WARPS_K * c.WARPS_M * c.WARPS_N * c.DEPTH * 4 * slots * 8 * problem.itemsize // words
        )
    rows = c.BLOCK // (-(-problem.M // c.TILE_M) * -(-problem.N // c.TILE_N))
    return int(c.BLOCKS_PER_SM * c.UNROLL * rows * (problem.M + problem.N) * problem.itemsize)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does: tensor-core tiles are 16 x 8 whether they are full or not."""
    words, width_m, width_n = real_widths(problem, getattr(c, "FOLD", 1))
    if c.VARIANT == "tiled":
        per_row = -(-problem.M // c.TILE_M) * c.TILE_M * -(-problem.N // c.TILE_N) * c.TILE_N
        return int(per_row * (8 if words == 2 else 2) * problem.K)
    if c.VARIANT == "group":
        return work_group.executed_flops(problem, c)
    if c.VARIANT in _RINGS:
        planes = 3 if c.VARIANT == "thirds" else 1
        return int(planes * shape_of(problem, c).tiles * c.WARPS_M * c.WARPS_N * 256 * problem.K / c.FOLD)
    m = -(-width_m // (16 * c.WARPS_M)) * 16 * c.WARPS_M
    n = -(-width_n // (8 * c.WARPS_N)) * 8 * c.WARPS_N
    half = 0.6 if problem.same and c.WARPS_M == c.WARPS_N == 1 and width_m > 16 else 1.0
    return int(half * 2 * m * n * problem.K / c.FOLD)


# Of the tensor cores' peak, at the clock that power leaves; longer steps read and write the sums less often.
_SUSTAINED = {4: 0.88, 8: 0.93, 16: 0.93}


def unit_rate(problem: Problem, c: Any, machine: Machine) -> float:
    """Flops per second of the unit the variant computes with."""
    if c.VARIANT == "tiled":
        return float(machine.fma[REAL[problem.dtype]])
    if getattr(c, "UNIT", "") == "tf32x3":
        return _tf32_reach(problem, c) * float(machine.fma["float32"])
    return _SUSTAINED[getattr(c, "KSTEP", 4)] * float(machine.tensor.get("float64", machine.fma["float64"]))


def _tf32_reach(problem: Problem, c: Any) -> float:
    """What products of three TF32 numbers reach, as a share of the rate of multiply-adds. Fitted to trials of
    complex64: beginning and ending a chunk costs as much as fifteen rows of it."""
    if not problem.is_complex:
        return 1.1
    return float((1.0 if c.VARIANT == "thirds" else 1.4) / (1 + 15 * c.WARPS_K / c.ROWS))
