"""Bytes, flops, registers and shared memory of a gemm problem and its configurations: what model and pruning use."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import REAL, Problem
from ...common import costs, images
from ...common.configs import up
from . import work_stream
from .work_lanes import lanes_shape
from .work_panels import adjacent, panel_shape
from .work_stream import stream_shape


def work(problem: Problem) -> Work:
    """The least a batch of products must move and compute: an operand that serves all is read once."""
    M, N, K, batch = problem.M, problem.N, problem.K, problem.BATCH
    matrices = {side: 1 if getattr(problem, f"stack_{side}") == "shared" else batch for side in "ab"}
    addresses = 8 * batch * sum(getattr(problem, f"stack_{side}") == "pointers" for side in "abc")
    return Work(
        read=problem.itemsize * (matrices["a"] * M * K + matrices["b"] * K * N + problem.accumulate * batch * M * N)
        + addresses,
        written=problem.itemsize * batch * M * N,
        flops=(8 if problem.is_complex else 2) * M * N * K * batch,
        dtype=problem.dtype,
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    if c.VARIANT == "lanes":
        return int(c.WARPS * 32)
    if c.VARIANT == "tensor":
        return int(c.WARPS_M * c.WARPS_N * 32 * c.PER_BLOCK)
    if c.VARIANT == "stream":
        return int(c.WARPS_M * c.WARPS_N * 32)
    return int(c.DIM_X * c.DIM_Y * c.PER_BLOCK)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    problem = images.oriented(problem)
    if c.VARIANT == "readonly":
        return 0
    return int(_shape(problem, c).shared_bytes)


def _shape(oriented: Problem, c: Any) -> Any:
    """How a configuration uses shared memory."""
    return {"lanes": lanes_shape, "stream": stream_shape}.get(c.VARIANT, panel_shape)(oriented, c)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    problem = images.oriented(problem)
    words = problem.itemsize // 4
    spare = (16 if problem.dtype == "complex128" else 0) + (12 if problem.accumulate else 0)
    if c.VARIANT == "readonly":
        rows, columns = up(problem.M, c.DIM_Y), up(problem.N, c.DIM_X)
        return int(words * (rows * columns + 2 * rows + columns)) + 40 + spare
    if c.VARIANT == "stream":
        return work_stream.registers(problem, c)
    shape: Any = lanes_shape(problem, c) if c.VARIANT == "lanes" else panel_shape(problem, c)
    spare += 8 * [shape.a.feed, shape.b.feed, shape.c.feed].count("elements")
    if c.VARIANT == "tensor":
        fragments = 8 * shape.rows * shape.columns + c.KSTEP // 2 * (shape.rows + shape.columns)
        return int(words * fragments) + (48 if shape.panels == 1 else 56) + spare
    fixed = 40 if c.VARIANT == "lanes" else 46
    return int(words * (shape.rows * shape.columns + shape.step * (shape.rows + shape.columns))) + fixed + spare


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Blocks per launch: as many as are resident where they stay, as many as there is work where they come and go."""
    resident = device.multiprocessors * c.BLOCKS_PER_SM
    oriented = images.oriented(problem)
    if c.VARIANT == "lanes":
        needed = up(problem.BATCH, lanes_shape(oriented, c).group * c.WARPS)
        staying = c.STAGES > 1 or "shared" in (problem.stack_a, problem.stack_b)
    elif c.VARIANT == "readonly":
        needed, staying = up(problem.BATCH, c.PER_BLOCK), False
    elif c.VARIANT == "stream":
        needed, staying = problem.BATCH * stream_shape(oriented, c).tiles, True
    else:
        needed, staying = up(problem.BATCH * panel_shape(oriented, c).tiles, c.PER_BLOCK), c.STAGES > 1
    return int(max(1, min(needed, resident if staying else _MOST_BLOCKS)))


_MOST_BLOCKS = 1 << 30


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    oriented = images.oriented(problem)
    seconds = {"arithmetic": executed_flops(problem, c) / unit_rate(problem, c, machine)}
    clocks = device.multiprocessors * _CLOCK / max(1, problem.BATCH)
    words = 2 if problem.is_complex else 1
    if c.VARIANT == "readonly":  # every thread of a matrix reads its rows and columns
        rows, columns = up(oriented.M, c.DIM_Y), up(oriented.N, c.DIM_X)
        loads = c.DIM_X * c.DIM_Y * problem.K * (rows + columns) * words / 32
        return seconds | {"L1 cache": loads * _CLOCKS_PER_LOAD / clocks}
    operands, result = (problem.M + problem.N) * problem.K * problem.itemsize, problem.M * problem.N * problem.itemsize
    if c.VARIANT == "lanes":
        lanes = lanes_shape(oriented, c)
        # instructions of a warp: copies, reads, products, results
        products = problem.K * lanes.rows * lanes.columns * words * words
        reads = problem.K * (lanes.rows + lanes.columns) / lanes.step
        issued = c.PER_TEAM * (products + 1.5 * reads + 4 * lanes.rows * lanes.columns * words) + 200
        issued += lanes.group * (operands + 2 * result) / 512 * _COPY_INSTRUCTIONS
        seconds["instructions"] = issued / lanes.group / 4 / clocks
        if problem.accumulate and c.WARPS * c.BLOCKS_PER_SM < _WARPS_THAT_HIDE:
            # old entries are asked for when the products are there: other warps must fill the gap
            moved = problem.BATCH * (operands + 2 * result) / float(machine.copy_bandwidth)
            seconds["old entries"] = moved * _WARPS_THAT_HIDE / (c.WARPS * c.BLOCKS_PER_SM)
        return seconds | {"shared memory": ((operands + 2 * result) / 128 + lanes.wavefronts / lanes.group) / clocks}
    if c.VARIANT == "stream":
        stream = stream_shape(oriented, c)
        seconds["L2 cache"] = problem.BATCH * (stream.fetched + result) / _CACHE_BANDWIDTH
        in_turn = stream.tiles * work_stream.clocks_in_turn(oriented, c)
        seconds["one tile after the other"] = in_turn / clocks / c.BLOCKS_PER_SM
        return seconds | {"shared memory": (stream.fetched / 128 + stream.wavefronts * stream.tiles) / clocks}
    panels = panel_shape(oriented, c)
    # tiles side by side fetch the same rows, tiles below each other the same columns
    fetched = up(oriented.N, panels.n) * oriented.M + up(oriented.M, panels.m) * oriented.N
    fetched *= problem.K * problem.itemsize
    seconds["L2 cache"] = problem.BATCH * (fetched + result) / _CACHE_BANDWIDTH
    return seconds | {"shared memory": (fetched / 128 + panels.wavefronts * panels.tiles) / clocks}


# Instructions per 16-byte copy of a warp; clocks of a load through the first cache; the clock under load; bytes per
# second that the second cache hands out.
_COPY_INSTRUCTIONS, _CLOCKS_PER_LOAD, _CLOCK, _CACHE_BANDWIDTH = 6, 4, 1.75e9, 6e12
_WARPS_THAT_HIDE = 12  # of a multiprocessor; with eight, products with beta ran at two thirds of the bandwidth


reduction_seconds = costs.no_reduction


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a variant's way of loading and storing reaches."""
    if c.VARIANT == "readonly":
        return 0.5
    oriented = images.oriented(problem)
    shape = _shape(oriented, c)
    slow = sum(image.feed == "elements" for image in (shape.a, shape.b))
    # rows that do not begin on boundaries are written in halves of sectors
    if c.VARIANT != "stream" and c.OUT == "direct":
        slow += adjacent(oriented) * problem.itemsize < 16
    return float(0.85**slow)


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    oriented = images.oriented(problem)
    held = c.BLOCKS_PER_SM
    if c.VARIANT == "readonly":
        return int(held * threads(problem, c) * 4 * problem.itemsize)
    if c.VARIANT == "stream":  # the panel in use is no longer under way
        return int(held * (c.STAGES - 1) * stream_shape(oriented, c).stage_bytes)
    if c.VARIANT == "lanes":
        teams, stage = c.WARPS, lanes_shape(oriented, c).stage_bytes
    else:
        teams, stage = c.PER_BLOCK, panel_shape(oriented, c).stage_bytes
    # alone, a stage waits for its copies about two thirds of the time; in a ring it waits while another one is used
    return int(held * teams * stage * (0.65 if c.STAGES == 1 else c.STAGES - 0.7))


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does: shares and tensor-core tiles are multiplied whether they are full or not."""
    problem = images.oriented(problem)
    each = problem.K * (8 if problem.is_complex else 2) * problem.BATCH
    if c.VARIANT == "readonly":
        return int(each * up(problem.M, c.DIM_Y) * c.DIM_Y * up(problem.N, c.DIM_X) * c.DIM_X)
    if c.VARIANT == "lanes":
        lanes = lanes_shape(problem, c)
        return int(each * lanes.rows * c.LANES_M * lanes.columns * c.LANES_N)
    panels = _shape(problem, c)
    if c.VARIANT in ("tensor", "stream"):
        return int(each * panels.tiles * panels.rows * c.WARPS_M * panels.columns * c.WARPS_N * 256)
    return int(each * panels.tiles * panels.rows * c.DIM_Y * panels.columns * c.DIM_X)


def unit_rate(problem: Problem, c: Any, machine: Machine) -> float:
    """Flops per second of the unit the variant computes with."""
    if c.VARIANT == "stream" and problem.dtype in work_stream.SPLIT:
        share = _SPLIT_SHARE * work_stream.balance(images.oriented(problem), c)
        return share * float(machine.tensor.get("tf32", _TF32_PER_FMA * machine.fma["float32"])) / 3
    if c.VARIANT not in ("tensor", "stream"):
        return 0.8 * float(machine.fma[REAL[problem.dtype]])
    rate = {4: 0.85, 8: 0.9, 16: 0.95}[c.KSTEP] * float(machine.tensor.get("float64", machine.fma["float64"]))
    warps = threads(problem, c) // 32 * c.BLOCKS_PER_SM
    if c.VARIANT == "stream":
        rate *= work_stream.balance(images.oriented(problem), c)
    return float(rate * min(1.0, 0.5 + warps / 16))  # a few warps do not fill the units


# Share of the tensor cores' rate while numbers are split and loaded beside the products; their rate by that of the
# ordinary units, where it was not measured.
_SPLIT_SHARE, _TF32_PER_FMA = 0.6, 8.0


remarks = partial(costs.memory_bound, work)
