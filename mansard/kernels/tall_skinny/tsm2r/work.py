"""Bytes, flops, registers and shared memory of a tsm2r problem and its configurations: what model and pruning use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import REAL, Problem
from ...common.configs import up
from . import work_group


def work(problem: Problem) -> Work:
    """The least a product must move and compute: A and B read, C written (beta = 0)."""
    return Work(
        read=problem.K * (problem.M + problem.N) * problem.itemsize,
        written=problem.M * problem.N * problem.itemsize,
        flops=(8 if problem.is_complex else 2) * problem.M * problem.N * problem.K,
        dtype=problem.dtype,
    )


STEPS_REGISTERS = 44  # of the paper's kernels: addresses and counters, with which they do without spills


def real_bytes(problem: Problem) -> int:
    """Bytes of a real number."""
    return 4 if REAL[problem.dtype] == "float32" else 8


def width(problem: Problem) -> int:
    """Real columns of C."""
    return int(problem.N * (2 if problem.is_complex else 1))


def vector(problem: Problem) -> int:
    """Real numbers of A per load: sixteen bytes where rows (or columns) begin on such boundaries, else one."""
    return 16 // real_bytes(problem) if problem.aligned and problem.pitch_a * problem.itemsize % 16 == 0 else 1


@dataclass(frozen=True)
class TensorShape:
    """The numbers of `TensorShape` in panels.cuh that decide legality and launch; the kernel asserts that they fit."""

    consumers: int  # threads that multiply
    threads: int
    group: int  # steps of four columns
    block: int  # rows of B that lie together
    tiles_n: int  # of eight real columns of C, per warp
    rows: int  # real ones per panel
    panels: int
    chunks: int  # per panel
    stage_bytes: int
    small_bytes: int  # two chunks of B
    shared_bytes: int
    partial_bytes: int  # sums of one block's part of a panel


@lru_cache(maxsize=4096)
def tensor_shape(problem: Problem, c: Any) -> TensorShape:
    col, words, real = problem.layout_a == "col", 2 if problem.is_complex else 1, real_bytes(problem)
    number = 4 if c.UNIT == "tf32x3" else 8
    pack, adjacent = 16 // number, 1 if col else vector(problem)
    rows, tiles_n = c.WARPS_M * c.TILES * 16, up(up(width(problem), 8), c.WARPS_N)
    consumers = c.WARPS_M * c.WARPS_N * c.WARPS_K * 32
    bulk = c.LOAD == "bulk"
    stage, small = rows * c.DEPTH * real, 2 * c.DEPTH * tiles_n * c.WARPS_N * 8 * number
    if c.VARIANT == "group":  # two halves of every number, and two barriers
        small = 2 * small // max(1, c.PARTS) + 16
    ring = up(2 * c.STAGES * 8, 128) * 128 + c.STAGES * stage if bulk else 0
    return TensorShape(
        consumers=consumers,
        threads=consumers + (32 * c.FEEDERS if bulk else 0),
        group=2 * adjacent if bulk and not col else max(adjacent, pack),
        block=4 * max(adjacent, pack) // (1 if col else words),
        tiles_n=tiles_n,
        rows=rows,
        panels=up(problem.M * (words if col else 1), rows),
        chunks=up(problem.K * (1 if col else words), c.DEPTH),
        stage_bytes=stage,
        small_bytes=small,
        shared_bytes=up(ring + small + 16, 128) * 128,
        partial_bytes=c.WARPS_K * rows * tiles_n * c.WARPS_N * 8 * number,
    )


def blocks(problem: Problem, c: Any, multiprocessors: int) -> int:
    """Blocks of the persistent grid: all that fit, but a panel is shared by no more than is worth adding up. Working
    off a share takes chunks / parts, adding up takes parts, in units that bytes tell."""
    shape = tensor_shape(problem, c)
    stage = shape.rows * c.DEPTH * real_bytes(problem)
    parts = max(1, isqrt(max(1, shape.chunks * stage // shape.partial_bytes)))
    return int(max(1, min(multiprocessors * c.BLOCKS_PER_SM, shape.panels * min(parts, shape.chunks))))


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.T1) if c.VARIANT == "steps" else tensor_shape(problem, c).threads


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    if c.VARIANT != "steps":
        return tensor_shape(problem, c).shared_bytes
    tile = c.T1 * c.T2 * problem.itemsize if c.STEP in ("shared", "prefetch") else 0
    return int(max(1, up(tile, 128)) * 128)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    if c.VARIANT == "steps":
        # results, numbers of A (two sets when prefetched), a row of the next tile of B
        held = c.T2 + c.T3 * (2 if c.STEP == "prefetch" else 1) + (c.T2 if c.STEP != "inner" else 1)
        return int(problem.itemsize // 4 * held) + (30 if c.STEP in ("inner", "outer") else STEPS_REGISTERS)
    shape = tensor_shape(problem, c)
    if c.VARIANT == "group":
        return work_group.registers(c, shape)
    real, number = real_bytes(problem) // 4, 1 if c.UNIT == "tf32x3" else 2
    col, expands = problem.layout_a == "col", problem.is_complex and problem.layout_a == "row"
    sums = c.TILES * shape.tiles_n * 4 * number
    staged = up(c.DEPTH // (2 if expands else 1) * problem.N, shape.consumers) * problem.itemsize // 4
    if c.LOAD == "registers":  # the present chunk and the next one
        held = 2 * c.TILES * 2 * c.DEPTH // 4 // c.WARPS_K * real
    else:
        held = shape.group * (2 if shape.group <= 2 else 1) * c.TILES * 2 * real
    if c.UNIT == "tf32x3":  # sums, those of a chunk, and both halves of the operands
        return int(2 * sums + held + staged + 4 * c.TILES + 4 * shape.tiles_n) + 36
    widened = 8 * c.TILES if real == 1 else 0
    return int(sums + held + staged + 4 * shape.tiles_n + widened + (8 if expands else 0)) + (44 if not col else 40)


def unfitted_registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread on GPUs to which `registers` was not fitted. Of float32 numbers the compiler loads a
    further row of B ahead of its use; of others it takes a twelfth more, and spills where 255 do not suffice."""
    found = registers(problem, c)
    if c.VARIANT != "steps":
        return found
    return found + int(c.T2 if problem.dtype == "float32" else found // 12)


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    seconds = {"arithmetic": executed_flops(problem, c) / unit_rate(problem, c, machine)}
    if c.VARIANT == "steps":
        passes = up(problem.N, c.T2)
        # A is read from memory for every T2 results; B by every thread, from shared memory or the first cache
        seconds["A again"] = passes * problem.M * problem.K * problem.itemsize / machine.read_bandwidth
        loads = problem.M * problem.K * (passes + problem.N) * (2 if problem.is_complex else 1) / 32
        clocks = 1 if c.STEP in ("shared", "prefetch") else 4
        seconds["loads of B"] = loads * clocks / device.multiprocessors / _CLOCK
        return seconds
    shape, real = tensor_shape(problem, c), real_bytes(problem)
    busy = min(1.0, blocks(problem, c, device.multiprocessors) / device.multiprocessors)
    chunks = shape.panels * shape.chunks / device.multiprocessors / busy
    if c.VARIANT == "group":
        seconds = work_group.limits(problem, c, shape, chunks)
    else:
        # per chunk: A laid down and read (in turns, or with collisions), B laid down and read by all warps of a column
        a_reads = shape.stage_bytes / 128 * (1 + c.WARPS_N * _collisions(problem, c)) if c.LOAD == "bulk" else 0
        b_reads = shape.small_bytes / 2 / 128 * (c.WARPS_M + 4)
        seconds["shared memory"] = chunks * (a_reads + b_reads) / _CLOCK
        seconds["meeting"] = chunks * _MEETING_SECONDS / c.BLOCKS_PER_SM
    if c.LOAD == "bulk":
        lines = c.DEPTH if problem.layout_a == "col" else shape.rows
        fed = chunks * (_CHUNK_SECONDS + lines * max(_COPY_SECONDS / c.FEEDERS, _ENGINE_SECONDS))
        # a stage is filled, in its turn, waited for, used and asked for again: meanwhile the others deliver
        arrives = chunks * shape.stage_bytes * device.multiprocessors / machine.read_bandwidth
        round_trip = max(seconds.values()) + (fed + chunks * machine.loaded_latency) / c.BLOCKS_PER_SM
        seconds["feed"] = max(fed, (arrives + round_trip) / c.STAGES)
    seconds["L2 cache"] = chunks * (shape.stage_bytes + c.DEPTH * width(problem) * real) / _L2_BYTES_PER_SECOND
    if real == 4 and c.UNIT == "float64":  # by the same units
        seconds["arithmetic"] += chunks * shape.stage_bytes / 4 / _WIDENED_PER_CLOCK / _CLOCK
    return seconds


# Handling a chunk, meeting once, what a multiprocessor gets from the second cache, the clock under load, conversions to
# float64 per clock: guessed from gram's on an H200, for all GPUs. A bulk copy: what a warp takes to issue one (lanes in
# turns took 36 to 50 ns; what they did is done once for eight copies now), and what the engine takes: guessed.
_CHUNK_SECONDS, _COPY_SECONDS, _ENGINE_SECONDS = 0.10e-6, 0.010e-6, 0.004e-6
_MEETING_SECONDS, _L2_BYTES_PER_SECOND = 0.10e-6, 55e9
_CLOCK, _WIDENED_PER_CLOCK = 1.75e9, 16


def _collisions(problem: Problem, c: Any) -> int:
    """Times that lanes meet in a bank when they read A from shared memory."""
    if problem.layout_a == "row":
        return 1 if c.SPREAD == "rotate" else 2
    turns = next(turns for turns in (4, 2, 1) if c.TILES % turns == 0)
    return 4 // turns if c.SPREAD == "rotate" else 4


def reduction_seconds(problem: Problem, c: Any, device: Device, machine: Machine) -> float:
    """What it takes to add up the sums of blocks that share rows, once they are done."""
    if c.VARIANT == "steps":
        sums = problem.M * problem.N * problem.itemsize
        return 2 * sums * c.SPLIT / machine.read_bandwidth + 2e-6 if c.SPLIT > 1 else 0.0
    shape = tensor_shape(problem, c)
    parts = blocks(problem, c, device.multiprocessors) / shape.panels
    return float(1e-6 + (parts + 1) * shape.partial_bytes / _ONE_BLOCK_BANDWIDTH) if parts != 1 else 0.0


_ONE_BLOCK_BANDWIDTH = 55e9  # at which a single block reads what others have left in the second cache


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a variant's way of loading reaches."""
    if c.VARIANT == "steps":
        return {"inner": 0.5, "outer": 0.6, "shared": 0.7}.get(c.STEP, 0.85) * (1 if problem.layout_a == "col" else 0.3)
    shape = tensor_shape(problem, c)
    if c.LOAD == "registers":
        return 0.93 if vector(problem) > 1 else 0.7
    line = (shape.rows if problem.layout_a == "col" else c.DEPTH) * real_bytes(problem)
    return float(line / (line + 8))


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    if c.VARIANT == "steps":
        # a compiler that is not told how many blocks must fit takes half as many registers again
        roomy = registers(problem, c) * 3 // 2 * c.T1
        resident = max(c.BLOCKS_PER_SM, min(2048 // c.T1, 65536 // roomy))
        return int(resident * c.T1 * c.T3 * problem.itemsize)
    stage = tensor_shape(problem, c).stage_bytes
    return int(c.BLOCKS_PER_SM * stage * (c.STAGES - 1 if c.LOAD == "bulk" else 1))


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does: tensor-core tiles are 16 x 8 whether they are full or not."""
    if c.VARIANT == "steps":
        entries = up(problem.M, c.T1) * c.T1 * up(problem.N, c.T2) * c.T2
        return int((8 if problem.is_complex else 2) * entries * problem.K)
    shape = tensor_shape(problem, c)
    return int(2 * shape.panels * shape.rows * shape.chunks * c.DEPTH * shape.tiles_n * c.WARPS_N * 8)


def unit_rate(problem: Problem, c: Any, machine: Machine) -> float:
    """Flops per second of the unit the variant computes with."""
    if c.VARIANT == "steps":
        return float(machine.fma[REAL[problem.dtype]])
    if c.VARIANT == "group":
        return work_group.SUSTAINED * float(machine.fma["float32"])
    if c.UNIT == "tf32x3":
        return 0.8 * float(machine.fma["float32"])  # measured: every warp splits B again for each of its tiles
    return {4: 0.88, 8: 0.93}[c.KSTEP] * float(machine.tensor.get("float64", machine.fma["float64"]))


def remarks(problem: Problem, c: Any, device: Device, machine: Machine) -> list[str]:
    """What TSM2's own model says: of the paper's kernel if it runs, and of the parameters the paper would choose."""
    from ....machine.tsm2 import Parameters, Shape, Tsm2Model
    from ....machine.tsm2_search import optimise

    model = Tsm2Model(device, machine, setup_registers=STEPS_REGISTERS)
    size = Shape(problem.M, problem.K, problem.N, problem.dtype)
    lines = []
    if c is not None and c.VARIANT == "steps":
        lines.append(f"TSM2     {model.predict(size, Parameters(c.T1, c.T2, c.T3, split=c.SPLIT)).text()}")
    return [*lines, f"TSM2     its choice: {optimise(model, size).text()}"]
