"""Bytes, flops, registers and shared memory of a trsm problem and its configurations: what model and pruning use."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import REAL, Problem
from ...common import costs
from ...common.configs import up
from . import work_stream, work_tensor
from .work_shapes import blocked_shape, lanes_shape, stream_shape
from .work_tensor import tensor_shape


def work(problem: Problem) -> Work:
    """The least a batch of systems must move and compute: one triangle of each A, or of the one that serves all."""
    N, NRHS, batch = problem.N, problem.NRHS, problem.BATCH
    triangle = N * (N - 1 if problem.unit else N + 1) // 2
    of_a, of_b = (1 if getattr(problem, f"stack_{name}") == "shared" else batch for name in "ab")
    addresses = 8 * batch * sum(getattr(problem, f"stack_{name}") == "pointers" for name in "abx")
    return Work(
        read=problem.itemsize * (of_a * triangle + of_b * N * NRHS) + addresses,
        written=problem.itemsize * batch * N * NRHS,
        flops=(4 if problem.is_complex else 1) * N * N * NRHS * batch,
        dtype=problem.dtype,
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    if c.VARIANT == "blocked":
        return int(c.DIM_X * c.DIM_Y)
    return int(c.WARPS * 32 * (c.PER_BLOCK if c.VARIANT == "stream" else 1))


def _shape(problem: Problem, c: Any) -> Any:
    return _SHAPES[c.VARIANT](problem, c)


_SHAPES: dict[str, Any] = {
    "lanes": lanes_shape, "blocked": blocked_shape, "stream": stream_shape, "tensor": tensor_shape,
}  # fmt: skip
_OWN: dict[str, Any] = {"stream": work_stream, "tensor": work_tensor}  # variants whose costs are elsewhere


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    return int(_shape(problem, c).shared_bytes)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    if c.VARIANT in _OWN:
        return int(_OWN[c.VARIANT].registers(problem, c))
    shape, words = _shape(problem, c), problem.itemsize // 4
    # X, entries of A with the rows they belong to, quotients on their way
    quotients = min(problem.N, 6) * shape.columns
    held = int(words * (shape.rows * shape.columns + shape.a.read * (shape.columns + 2) + 2 + quotients))
    held += 20 if problem.dtype == "complex128" and problem.N > 4 else 0
    if c.VARIANT == "blocked":
        return held + 64 + 6 * int(shape.a.feed == "elements")
    feeds = [shape.a.feed, shape.b.feed, shape.x.feed]
    several = 3 * words * shape.a.read if shape.a.read > c.LANES_M else 0  # divisors at a time
    return held + 52 + 6 * feeds.count("elements") + int(several) + 20 * bool(c.TRIANGLE)


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Blocks per launch: as many as are resident where they stay, as many as there is work where they come and go."""
    shape, staying = _shape(problem, c), False
    if c.VARIANT == "lanes":
        needed = up(problem.BATCH, shape.group * c.WARPS)
        staying = c.STAGES > 1 or "shared" in (problem.stack_a, problem.stack_b)
    elif c.VARIANT == "stream":
        needed, staying = up(problem.BATCH, c.PER_BLOCK), True
    else:
        needed, staying = problem.BATCH * shape.tiles, c.VARIANT == "tensor"
    return int(max(1, min(needed, device.multiprocessors * c.BLOCKS_PER_SM if staying else _MOST_BLOCKS)))


_MOST_BLOCKS = 1 << 30


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    arithmetic = {"arithmetic": executed_flops(problem, c) / unit_rate(problem, c, machine)}
    if c.VARIANT in _OWN:
        own: dict[str, float] = _OWN[c.VARIANT].limits(problem, c, device)
        return arithmetic | own
    clocks = device.multiprocessors * _CLOCK / max(1, problem.BATCH)  # per matrix
    lanes = c.VARIANT == "lanes"
    together = _shape(problem, c).group if lanes else 1 / _shape(problem, c).tiles  # matrices
    turns = c.BLOCKS_PER_SM * (c.WARPS if lanes else 1)  # groups, or matrices, under way
    return arithmetic | {
        "instructions": issued(problem, c) / together / 4 / clocks,
        "substitution": waited(problem, c) / together / turns / clocks,
    }


def issued(problem: Problem, c: Any) -> float:
    """Instructions of all warps for a group of matrices, or for a matrix (some of its columns)."""
    shape, words = _shape(problem, c), 2 if problem.is_complex else 1
    lanes = c.VARIANT == "lanes"
    warps, order = (1, problem.N) if lanes else (threads(problem, c) / 32, min(c.BLK_M, problem.N))
    read = shape.a.read
    products = order * shape.rows * shape.columns * words * words
    reads = order * shape.rows / read
    known = order * shape.columns * words * (8 + problem.itemsize // words // 4)  # quotients and shuffles
    solved = products / 2 + reads / 2 + known + 16 * shape.rows * words
    if lanes:
        moved = shape.group * (problem.N + 2 * problem.NRHS) * problem.N * problem.itemsize / 512
        return float(c.PER_TEAM * (solved + 4 * shape.rows * shape.columns) + moved * _COPY_INSTRUCTIONS + 200)
    beside = shape.blocks * (shape.blocks - 1) / 2
    moved = (beside + shape.blocks) * (order**2 * problem.itemsize / 512 * _COPY_INSTRUCTIONS + 40 * warps)
    return float(warps * (beside * (products + reads + order * shape.columns) + shape.blocks * solved) + moved)


def waited(problem: Problem, c: Any) -> float:
    """Clocks from the first to the last row of a group, or of a matrix: a row waits for the one before it, and only
    other warps can fill the time."""
    step = _STEP_CLOCKS + (_SHUFFLE_CLOCKS if (c.LANES_M if c.VARIANT == "lanes" else c.DIM_Y) > 1 else 0)
    if c.VARIANT == "lanes":
        return float(_LATENCY + c.PER_TEAM * problem.N * step + 4 * issued(problem, c))
    shape = blocked_shape(problem, c)
    beside = shape.blocks * (shape.blocks - 1) / 2
    return float(_LATENCY + problem.N * step + beside * (100 + 8 * min(c.BLK_M, problem.N)))


# Instructions per 16-byte copy of a warp; clocks until a row is known, until the other lanes know it, and until memory
# answers; the clock under load.
_COPY_INSTRUCTIONS, _STEP_CLOCKS, _SHUFFLE_CLOCKS, _LATENCY, _CLOCK = 6, 60, 30, 1500, 1.75e9


reduction_seconds = costs.no_reduction


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a configuration's way of loading and storing reaches: what it reads on the other
    side of the diagonal, and single elements."""
    if c.VARIANT in _OWN:
        return float(_OWN[c.VARIANT].bandwidth_share(problem, c))
    least, shape = work(problem), _shape(problem, c)
    moved = least.bytes
    if c.VARIANT == "lanes" and problem.stack_a != "shared":
        line = problem.N * problem.itemsize
        rest = max(0, line - 64) / 2 / line if c.TRIANGLE else 0  # memory moves 64 bytes at a time
        triangle = problem.N * (problem.N - 1 if problem.unit else problem.N + 1) / 2
        moved += problem.BATCH * problem.itemsize * (problem.N**2 * (1 - rest) - triangle)
    slow = shape.a.feed == "elements"
    return float(0.85**slow * least.bytes / moved) if moved else 1.0


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    if c.VARIANT in _OWN:
        return int(_OWN[c.VARIANT].bytes_in_flight(problem, c))
    shape = _shape(problem, c)
    if c.VARIANT == "lanes":
        return int(c.BLOCKS_PER_SM * c.WARPS * shape.stage_bytes * (0.65 if c.STAGES == 1 else c.STAGES - 0.7))
    return int(c.BLOCKS_PER_SM * shape.stage_bytes * (c.STAGES - 1.3))


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does: lanes past the last row or column compute, too."""
    each = (8 if problem.is_complex else 2) * problem.BATCH
    if c.VARIANT in _OWN:
        return int(problem.BATCH * _OWN[c.VARIANT].executed_flops(problem, c))
    shape = _shape(problem, c)
    if c.VARIANT == "lanes":
        return int(each * problem.N / 2 * shape.rows * c.LANES_M * shape.columns * c.LANES_N)
    order = min(c.BLK_M, problem.N)
    blocks = shape.blocks * (shape.blocks + 1) // 2
    return int(each * blocks * order * shape.rows * c.DIM_Y * shape.columns * c.DIM_X * shape.tiles)


def unit_rate(problem: Problem, c: Any, machine: Machine) -> float:
    """Flops per second of the unit the variant computes with."""
    if c.VARIANT == "tensor":
        return 0.7 * float(machine.tensor.get("float64", machine.fma["float64"]))
    return 0.7 * float(machine.fma[REAL[problem.dtype]])


remarks = partial(costs.memory_bound, work)
