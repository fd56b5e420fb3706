"""Bytes, flops, registers and shared memory of a gemv problem and its configurations: what model and pruning use."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import REAL, Problem
from ...common import costs
from ...common.configs import up
from ..gemm import work as gemm_work
from .shapes import lanes_shape, stream_shape
from .spec import canonical


def work(problem: Problem) -> Work:
    """The least a batch of products must move and compute: an operand that serves all is read once."""
    return gemm_work.work(problem)


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.WARPS * 32) if c.VARIANT == "lanes" else stream_shape(problem, c).threads


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    return (lanes_shape if c.VARIANT == "lanes" else stream_shape)(problem, c).shared_bytes


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    words, rows_first = problem.itemsize // 4, canonical(problem).layout_a != "col"
    spare = (8 if problem.is_complex else 0) + (4 if problem.accumulate else 0)
    if c.VARIANT == "lanes":
        lanes = lanes_shape(problem, c)
        run, of_sums = lanes.a.read, lanes.tile * (1 if rows_first else lanes.a.read)
        spare += 8 * [lanes.a.feed, lanes.x.feed, lanes.y.feed].count("elements")
        return int(words * (of_sums + min(4, lanes.steps) * min(4, lanes.tile) * run)) + 32 + spare
    stream = stream_shape(problem, c)
    loads = c.UNROLL * c.TILE_M * stream.vector + c.UNROLL * (stream.vector if rows_first else 1)
    # ragged runs, and columns, are addressed load by load; ragged rows each have an address
    whole = stream.vector * problem.itemsize == 16
    fixed = 24 if rows_first and whole else 36 + (0 if whole else c.TILE_M)
    return int(words * (loads + stream.sums)) + fixed + spare


def unfitted_registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread on GPUs to which `registers` was not fitted: a lane that has a matrix alone loads all
    of it before it multiplies, as far as `_EARLY` registers hold it."""
    found = registers(problem, c)
    if c.VARIANT != "lanes" or c.LANES_M * c.LANES_N > 1:
        return found
    lanes, words = lanes_shape(problem, c), problem.itemsize // 4
    early = lanes.steps * lanes.tile - min(4, lanes.steps) * min(4, lanes.tile)  # loads beyond those counted
    return found + int(min(_EARLY, words * early * lanes.a.read))


_EARLY = 32  # registers for loads ahead of their use: the 8 x 8 float32 numbers beyond the 32 that are counted


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Blocks per launch: as many as are resident where they stay, as many as there is work where they come and go."""
    resident = device.multiprocessors * c.BLOCKS_PER_SM
    if c.VARIANT == "lanes":
        needed = up(problem.BATCH, lanes_shape(problem, c).group * c.WARPS)
        staying = c.STAGES > 1 or "shared" in (problem.stack_a, problem.stack_b)
    else:
        needed, staying = up(problem.BATCH * stream_shape(problem, c).parts, c.PER_BLOCK), False
    return int(max(1, min(needed, resident if staying else _MOST_BLOCKS)))


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    clocks = device.multiprocessors * _CLOCK / max(1, problem.BATCH)
    instructions = warp_instructions(problem, c) / 4 / clocks
    seconds = {"arithmetic": work(problem).flops / unit_rate(problem, machine), "instructions": instructions}
    moved = problem.M * problem.K * problem.itemsize
    if c.VARIANT == "lanes":
        lanes = lanes_shape(problem, c)
        return seconds | {"shared memory": (moved / 128 + lanes.wavefronts / lanes.group) / clocks}
    stream = stream_shape(problem, c)
    rows_first = canonical(problem).layout_a != "col"
    vectors = 1 + (stream.vector if rows_first else 0.25) / (c.TILE_M * stream.vector)  # loads of x beside those of A
    return seconds | {"L1 cache": moved / stream.busy * vectors / 64 / clocks}


def warp_instructions(problem: Problem, c: Any) -> float:
    """Of a matrix."""
    words, real = (2 if problem.is_complex else 1), problem.itemsize // (2 if problem.is_complex else 1)
    agree = 1.5 * words * (real // 4 + 1)  # of a shuffled sum
    if c.VARIANT == "lanes":
        lanes = lanes_shape(problem, c)
        vm, run = (1 if canonical(problem).layout_a != "col" else lanes.a.read), lanes.a.read
        each = lanes.steps * (lanes.tile * (1.3 + run * words * words) + run / vm * words + 3)
        each += lanes.tile * vm * (_folds(lanes.tile * vm, c.LANES_N) * agree + 3)
        copies = lanes.group * (problem.M + 1) * problem.K * problem.itemsize / 512 * 6 + 3 * up(problem.M, 8)
        return float(c.PER_TEAM * lanes.tiles * each + copies + 150) / lanes.group
    stream = stream_shape(problem, c)
    warps = c.WARPS_M * c.WARPS_N * stream.parts
    each = stream.steps * c.UNROLL * (c.TILE_M * (3 + stream.vector * words * words) + 4)
    each += stream.sums * (_folds(stream.sums, c.LANES_N) * agree + 4) + 100
    return float(warps * (each + (stream.sums * 8 if c.WARPS_N > 1 else 0)))


def _folds(sums: int, lanes: int) -> float:
    """Shuffles per sum until `lanes` lanes agree: halves of them at first, then the last ones everywhere."""
    total, left = 0.0, float(sums)
    while lanes > 1:
        left = left / 2 if left > 1 else left
        total, lanes = total + left, lanes // 2
    return total / sums


reduction_seconds = costs.no_reduction


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a variant's way of loading reaches."""
    if c.VARIANT == "lanes":
        lanes = lanes_shape(problem, c)
        return float(0.8 ** (lanes.a.feed == "elements") * 0.95 ** (lanes.x.feed == "elements"))
    if problem.layout_a == "any":
        return 0.5
    return 0.92 if stream_shape(problem, c).vector * problem.itemsize < 16 else 1.0


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    held = c.BLOCKS_PER_SM
    if c.VARIANT == "lanes":
        # alone, a stage waits for its copies about half of the time; in a ring it waits while another one is used
        stage = lanes_shape(problem, c).stage_bytes
        return int(held * c.WARPS * stage * (0.5 if c.STAGES == 1 else c.STAGES - 0.7))
    stream = stream_shape(problem, c)
    lane = c.UNROLL * c.TILE_M * stream.vector * problem.itemsize
    return int(held * stream.threads * lane * stream.busy * (0.45 if stream.steps == 1 else 0.6))


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does; what is past the end of a tile costs issue slots, not much else."""
    return work(problem).flops


def unit_rate(problem: Problem, machine: Machine) -> float:
    """Flops per second of the unit that multiplies."""
    return 0.8 * float(machine.fma[REAL[problem.dtype]])


def remarks(problem: Problem, c: Any, device: Device, machine: Machine) -> list[str]:
    """How much of what is moved is the matrices: they are read once, and nothing can be faster than that."""
    least = work(problem)
    if not least.bytes:
        return []
    matrices = 1 if problem.stack_a == "shared" else problem.BATCH
    share = matrices * problem.M * problem.K * problem.itemsize / least.bytes
    floor = least.bytes / machine.read_bandwidth * 1e6
    return [f"bound    {floor:.4g} us at the speed of reading; {100 * share:.3g} % of the bytes are the matrices'"]


# The most blocks of a launch; the clock under load.
_MOST_BLOCKS, _CLOCK = 1 << 30, 1.75e9
