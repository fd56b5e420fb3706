"""Bytes, flops, registers and shared memory of an lu problem and its configurations: what model and pruning use."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import REAL, Problem
from ...common import costs
from ...common.configs import up
from . import spec
from .shapes import dealt, lanes_shape, shape, slots


def work(problem: Problem) -> Work:
    """The least a batch must move and compute."""
    M, N, batch, size = problem.M, problem.N, problem.BATCH, problem.itemsize
    steps, right = min(M, N), problem.NRHS
    read = {"solve": N * N + N * right}.get(problem.want, M * N) * size
    written = {"factor": M * N * size + 4 * steps, "inverse": N * N * size, "solve": N * right * size}.get(
        problem.want, size + (size // 2 if problem.is_complex else size) * (problem.want == "logdet")
    )
    if problem.want == "swap":
        read, written = 2 * right * N * size + 4 * right, 2 * right * N * size - 4
    products = M * N * steps - (M + N) * steps**2 / 2 + steps**3 / 3
    products += {"solve": N * N * right, "inverse": 2 * N**3 / 3}.get(problem.want, 0)
    addresses = 8 * sum(getattr(problem, f"stack_{name}") == "pointers" for name in spec.SHAPES)
    return Work(
        read=batch * (read + addresses),
        written=batch * (written + 4),
        flops=int(0 if problem.want == "swap" else (8 if problem.is_complex else 2) * products * batch),
        dtype=problem.dtype,
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.WARPS * 32)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    if c.VARIANT == "swaps":
        return int(up((problem.NRHS + 2 * moved_rows(problem) + problem.M) * 4, 128) * 128)
    return shape(problem, c).shared_bytes


def moved_rows(problem: Problem) -> int:
    """Rows that exchanges may move."""
    return int(min(2 * problem.NRHS, problem.M))


def share(problem: Problem, c: Any) -> int:
    """32-bit registers that hold the rows of a lane."""
    if c.VARIANT == "block":
        lanes = 32 * (c.WARPS if c.TEAM == "block" else 1)
        return int(up(problem.M, lanes) * c.BLK * problem.itemsize // 4)
    if c.VARIANT == "tile":
        return int(shape(problem, c).slots * up(problem.N, c.LANES_N) * problem.itemsize // 4)
    right = problem.NRHS if problem.want == "solve" else 0
    return int(slots(problem, c) * (problem.N + right) * problem.itemsize // 4)


# Registers for rows with which the compiler manages in so many, if told to, by bytes of a number and lanes: in 96,
# so that twenty warps fit and not sixteen (H200, systems of 13 to 16 rows: 3 to 6 % faster; complex128 13 rows: 8 to
# 14 %), in 32 for all that a multiprocessor takes (2 rows: LU 93.5 to 97 % of the copy bandwidth, systems 96 to 101)
_SQUEEZED = {
    (8, "solve", 8): (68, 96), (8, "solve", 4): (60, 96), (8, "factor", 8): (56, 96), (8, "factor", 4): (54, 96),
    (16, "solve", 16): (56, 96), (16, "factor", 16): (56, 96), (8, "solve", 2): (12, 32), (8, "factor", 2): (8, 32),
    (8, "inverse", 2): (8, 32), (8, "determinant", 2): (8, 32),
}  # fmt: skip


_WIDE_TEAMS = {8: 0, 16: 12, 32: -8}  # of complex128 numbers, by what compiles without spills, or with few


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    if c.VARIANT == "swaps":
        return 52 + up(moved_rows(problem) * c.BLK_N, threads(problem, c)) * problem.itemsize // 4
    held = share(problem, c)
    if c.VARIANT == "block":
        found = held + _beside_panels(problem, held, c.BLK)
        return max(found, 120 if problem.dtype == "float64" else 96) if problem.want == "inverse" else found
    if c.VARIANT == "tile":
        return min(held + 30, 255)
    most, told = _SQUEEZED.get((problem.itemsize, problem.want, c.LANES), (0, 0))
    if held <= most:
        return told
    if not dealt(c):
        return held + 40 + _beside_one(problem, held)
    return min(held + 40 + _beside_rows(problem, c, held), 255)


def unfitted_registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread on GPUs to which `registers` was not fitted: inverses of complex128 numbers have a
    pivot row under way, or of `tile` a lane's part of it and of the pivot column."""
    found, words = registers(problem, c), int(problem.itemsize // 4)
    if problem.dtype != "complex128" or problem.want != "inverse":
        return found
    if c.VARIANT == "tile":
        return share(problem, c) + words * (shape(problem, c).slots + up(problem.N, c.LANES_N)) + 52
    if c.VARIANT != "lanes" or not dealt(c):
        return found
    return share(problem, c) + (words * problem.N + 24 if c.VIA == "lanes" else 72)


def _beside_one(problem: Problem, held: int) -> int:
    """Registers of a lane that has all rows, beside them and 40."""
    beside = {"determinant": 16, "logdet": 16, "inverse": 2 * problem.N * problem.itemsize // 4}.get(problem.want, 0)
    return int(beside) - (8 if held <= 16 else 0)


def _beside_rows(problem: Problem, c: Any, held: int) -> int:
    """The same of a lane of a team."""
    if problem.want == "inverse":
        if problem.dtype == "float32" and c.LANES >= 16:
            return -10
        return 0 if held == 132 else -4  # twelve warps would fit there, and eight are faster (H200)
    if problem.dtype == "complex128" and c.LANES == 4 and held >= 72:
        return 8  # a few bytes that spill cost less than a block that does not fit
    beside = {"determinant": 16, "logdet": 16}.get(problem.want, 0)
    if problem.dtype == "complex128":
        return beside + _WIDE_TEAMS.get(c.LANES, 20)
    if problem.dtype == "float32" and c.LANES == 16 and slots(problem, c) == 3:
        return -7
    if held < 100:
        return beside + 8
    return beside - (4 if problem.NRHS == 1 and (c.LANES > 8 or (c.LANES, held) == (8, 132)) else 0)


def _beside_panels(problem: Problem, held: int, width: int) -> int:
    """Registers of `block` beside its panels. Of float64 numbers the compiler spills up to 70 bytes where it is told to
    make do with fewer than it would take, and another block fits (H200)."""
    if problem.dtype == "complex128":
        return 96
    if held > 32 or width > 8:
        return 72 if (held, width) == (96, 16) else 80
    return 64 + 8 * (problem.N % 2 and problem.dtype != "float64")


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Blocks per launch."""
    if c.VARIANT in ("block", "tile"):
        return int(max(1, problem.BATCH))
    if c.VARIANT == "swaps":
        return int(max(1, problem.BATCH * up(problem.N, c.BLK_N * c.TURNS)))
    return int(max(1, up(problem.BATCH, lanes_shape(problem, c).group * c.WARPS)))


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    clocks = device.multiprocessors * _CLOCK / max(1, problem.BATCH)  # per matrix
    if c.VARIANT == "swaps":
        return {"instructions": 20 * problem.N * problem.NRHS / 32 / 4 / clocks}
    together = lanes_shape(problem, c).group if c.VARIANT == "lanes" else 1
    turns = c.BLOCKS_PER_SM * (c.WARPS if c.VARIANT == "lanes" else 1)  # groups, or matrices, under way
    return {
        "arithmetic": executed_flops(problem, c) / unit_rate(problem, c, machine),
        "instructions": issued(problem, c) / together / 4 / clocks,
        "elimination": waited(problem, c) / together / turns / clocks,
    }


def issued(problem: Problem, c: Any) -> float:
    """Instructions of all warps for a group of matrices, or for a matrix."""
    M, N, steps = problem.M, problem.N, min(problem.M, problem.N)
    words = problem.itemsize // 4
    parts = 4 if problem.is_complex else 1  # real products of one of numbers
    moved = 2 * M * N * problem.itemsize / 512 * _COPY_INSTRUCTIONS
    if c.VARIANT == "block":
        height = up(M, 32)
        panels = steps * (70 + 25 * height + c.BLK / 2 * (words + height * (parts + words / 2)))
        columns = up(steps, c.BLK) * up(N, 32) * (30 + c.BLK * (4 + c.BLK / 2 * parts))
        share = 1 if problem.want == "inverse" else 1 / 3  # of M N steps products
        tiles = M * N * steps * share / c.BLK / 128 * (20 if c.UNIT == "mma" else (6 + 8 * parts) * c.BLK / 2)
        return float(panels + columns + tiles + moved)
    if c.VARIANT == "tile":
        held, width = shape(problem, c).slots, up(N, c.LANES_N)
        return float(c.WARPS * steps * (120 + held * (10 + 3 * words) + width * (held * parts + words / 2)) + moved)
    group = lanes_shape(problem, c).group
    if not dealt(c):
        return float(M * N * steps / 2 * (parts + 2 * words) + 20 * steps + moved * group)
    held = slots(problem, c)
    carried = held * words if c.VIA == "lanes" else (held + 1) * words / 4
    update = held * parts + carried  # of a column: products; shuffles and selections, or stores and loads
    return float(steps * (60 + 12 * held + N / 2 * update) + moved * group)


def waited(problem: Problem, c: Any) -> float:
    """Clocks from the first to the last step of a group, or of a matrix: only other warps can fill the time."""
    steps = min(problem.M, problem.N)
    if c.VARIANT == "block":
        each = _STEP_CLOCKS + (200 if c.TEAM == "block" else 20 * up(problem.M, 32))
        return float(_LATENCY + steps * each + up(steps, c.BLK) * (900 + 6 * problem.M * problem.N / 32 / c.WARPS))
    if c.VARIANT == "tile":
        return float(_LATENCY + steps * 2 * _STEP_CLOCKS + 2 * issued(problem, c) / c.WARPS)
    return float(_LATENCY + steps * (_STEP_CLOCKS if dealt(c) else 80) + 2 * issued(problem, c))


# Instructions per 16-byte copy of a warp; clocks of a step, and until memory answers; the clock under load.
_COPY_INSTRUCTIONS, _STEP_CLOCKS, _LATENCY, _CLOCK = 6, 220, 1500, 1.75e9


reduction_seconds = costs.no_reduction


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a configuration's way of loading and storing reaches."""
    if c.VARIANT == "swaps":
        return 0.5 if problem.layout_a == "col" else 0.9
    return float(0.85 ** (shape(problem, c).a.feed == "elements"))


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    if c.VARIANT == "lanes":
        return int(0.65 * c.BLOCKS_PER_SM * c.WARPS * lanes_shape(problem, c).warp_bytes)
    if c.VARIANT == "swaps":
        return int(c.BLOCKS_PER_SM * moved_rows(problem) * c.BLK_N * problem.itemsize)
    return int(0.65 * c.BLOCKS_PER_SM * shared_bytes(problem, c))


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does: rows whose turn is over compute, too."""
    if c.VARIANT == "swaps":
        return 0
    least = work(problem).flops
    if c.VARIANT in ("block", "tile"):
        return int(1.5 * least)
    idle = slots(problem, c) * c.LANES / problem.M
    return int(least * idle * (1.5 if dealt(c) else 1))


def unit_rate(problem: Problem, c: Any, machine: Machine) -> float:
    """Flops per second of the unit the variant computes with."""
    return 0.7 * float(machine.fma[REAL[problem.dtype]])


remarks = partial(costs.memory_bound, work)
