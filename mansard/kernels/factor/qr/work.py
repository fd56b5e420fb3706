"""Bytes, flops, registers and shared memory of a qr problem and its configurations: what model and pruning use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import REAL, Problem
from ...common import costs
from ...common.configs import up
from . import shapes, spec, tensor
from .shapes import shape


def work(problem: Problem) -> Work:
    """The least a batch must move and compute: A once, and the results."""
    M, N, K = problem.M, problem.N, min(problem.M, problem.N)
    entries = {name: rows * columns for name in spec.OPERANDS for rows, columns in [spec.shape(problem, name)]}
    addresses = 8 * sum(getattr(problem, f"stack_{name}") == "pointers" and entries[name] > 0 for name in entries)
    taus = K if problem.want in ("raw", "panel") else 0
    written = entries["f"] + entries["q"] + entries["x"] + taus
    flops = 2 * K * K * (max(M, N) - K / 3) + 2 * (M - K) * (N - K) * K
    if entries["q"] and problem.want != "panel":
        width = spec.shape(problem, "q")[1]
        flops += 4 * M * K * width - 2 * K * K * (M + width) + 4 * K**3 / 3
    flops += problem.NRHS * (4 * M * N - N * N)
    return Work(
        read=problem.BATCH * (problem.itemsize * (entries["a"] + entries["b"]) + addresses),
        written=problem.BATCH * problem.itemsize * written,
        flops=int((4 if problem.is_complex else 1) * flops * problem.BATCH),
        dtype=problem.dtype,
    )


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(32 * c.WARPS)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block."""
    return int((tensor if c.VARIANT == "tensor" else shapes).shape(problem, c).shared_bytes)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    if c.VARIANT == "tensor":
        return tensor.registers(problem, c)
    s, words = shape(problem, c), problem.itemsize // 4
    twice = _wide(c) and s.rows * problem.itemsize > 128  # then the vector does not stay
    held = words * (s.rows * s.columns + (0 if twice else s.rows) + s.columns)
    if told := _squeezed(problem, c, held):
        return told
    if _large(problem, c, held):
        return int(held + (36 if problem.itemsize == 16 else 14 if c.LANES_M == 1 else 20))
    more = 8 * bool(c.ROLL == 1 and _wide(c) and not twice)
    more += (36 if _wide(c) else 8 * words) * (_passes(problem) - 1) + 20 * (problem.want == "panel" and not twice)
    if not _wide(c) and (problem.M % c.LANES_M or (problem.N + problem.NRHS) % c.LANES_N):
        more += 16 if c.ROLL == 0 and c.LANES_M > 1 else 8
    if c.LANES_M > 1 and not _wide(c):
        more += (20 if c.ROLL == 0 else 16 if c.LANES_M == 2 else 0) + words * max(0, s.columns - 4)
    return int(held + (36 if twice else 40) + more + (6 * words if problem.is_complex else 0))


def unfitted_registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread on GPUs to which `registers` was not fitted: of float32 numbers, where several steps
    share code, the compiler has the vectors of two reflections at once."""
    found = registers(problem, c)
    shares = c.VARIANT == "lanes" and c.ROLL > 1 and problem.dtype == "float32"
    return found + shape(problem, c).rows if shares else found


def _large(problem: Problem, c: Any, held: int) -> bool:
    """Whether the rest is what a kernel gets along with: a few bytes that spill cost less than a block that does not
    fit. Of smaller shares enough are there anyway."""
    if problem.want not in ("raw", "r") or _wide(c) or (c.LANES_M > 1 and c.ROLL == 0):
        return False
    alone = c.LANES_M * c.LANES_N == 32 and problem.dtype == "complex64"  # a warp's matrix: few are under way
    return held >= (64 if alone else _LARGE.get(problem.dtype, 256))


_LARGE = {"float64": 136, "complex64": 96, "complex128": 96}


def _squeezed(problem: Problem, c: Any, held: int) -> int:
    """With how many the compiler gets along if told so, and another warp or block fits: two columns of 15 or 16
    numbers, and five by five complex ones (a few of which spill). Zero where nothing is known."""
    if problem.want not in ("raw", "r"):
        return 0
    team = (problem.dtype, c.LANES_M, c.LANES_N, c.ROLL, c.WARPS)
    if team == ("float64", 1, 8, 0, 4) and 94 <= held <= 100:
        return 128
    return 168 if team == ("complex128", 4, 4, 1, 1) and held <= 140 else 0


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Blocks per launch: as many as are resident where they stay, as many as there is work where they come and go."""
    if c.VARIANT == "tensor":
        return int(max(1, min(problem.BATCH, _MOST_BLOCKS)))
    s = shape(problem, c)
    needed = up(problem.BATCH, s.group * s.units)
    return int(max(1, min(needed, device.multiprocessors * c.BLOCKS_PER_SM if c.STAGES > 1 else _MOST_BLOCKS)))


_MOST_BLOCKS = 1 << 30


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    clocks = device.multiprocessors * _CLOCK / max(1, problem.BATCH)  # per matrix
    if c.VARIANT == "tensor":
        return {
            "arithmetic": executed_flops(problem, c) / unit_rate(problem, c, machine),
            "instructions": tensor.issued(problem, c) / 4 / clocks,
            "reflections": tensor.waited(problem, c) / c.BLOCKS_PER_SM / clocks,
        }
    s = shape(problem, c)
    under_way = c.BLOCKS_PER_SM * s.units * s.group
    return {
        "arithmetic": executed_flops(problem, c) / unit_rate(problem, c, machine),
        "instructions": issued(problem, c) / s.group / 4 / clocks,
        "exchange": exchanged(problem, c) / s.group / clocks,
        "reflections": waited(problem, c) / under_way / clocks,
    }


@dataclass(frozen=True)
class Steps:
    """Sums over all reflections: slots of rows and of columns that each works on, and their products."""

    count: int
    rows: int
    columns: int
    entries: int


def _steps(problem: Problem, c: Any) -> Steps:
    columns = up(problem.N + problem.NRHS, c.LANES_N)
    return _sums(min(problem.M, problem.N), up(problem.M, c.LANES_M), columns, c.LANES_M, c.LANES_N, max(1, c.ROLL))


@lru_cache(maxsize=8192)
def _sums(count: int, rows: int, columns: int, lanes_m: int, lanes_n: int, roll: int) -> Steps:
    pairs = [(rows - k // (lanes_m * roll) * roll, columns - k // lanes_n) for k in range(count)]
    return Steps(count, sum(r for r, _ in pairs), sum(q for _, q in pairs), sum(r * q for r, q in pairs))


def _wide(c: Any) -> bool:
    """Whether several warps share a matrix."""
    return bool(c.LANES_M * c.LANES_N > 32)


def _rounds(c: Any) -> int:
    """Shuffles of a sum over the rows of a column."""
    return int(c.LANES_M.bit_length() - 1)


def exchanged(problem: Problem, c: Any) -> float:
    """Shuffles and accesses to shared memory of a unit, for a group: a multiprocessor does one at a time."""
    s, words, steps, wide, rounds = shape(problem, c), problem.itemsize // 4, _steps(problem, c), _wide(c), _rounds(c)
    fetched = 0 if c.LANES_M * c.LANES_N == 1 else words if not wide else up(c.LANES_M * words, 32)
    total = fetched * (steps.rows + 2 * steps.count)
    total += words * steps.columns * (rounds + (rounds > 0))
    staged = 4 * s.group * problem.M * problem.N * problem.itemsize / 128
    return float((c.WARPS if wide else 1) * _passes(problem) * total + staged)


def issued(problem: Problem, c: Any) -> float:
    """Instructions of a unit, for a group of matrices. A quarter of a multiprocessor issues one at a clock, but of
    double precision one at two."""
    s, parts, steps, wide = shape(problem, c), 2 if problem.is_complex else 1, _steps(problem, c), _wide(c)
    products = parts * parts * 2 * steps.entries + parts * (4 * parts + _rounds(c)) * steps.columns
    slow = 2 if REAL[problem.dtype] == "float64" else 1
    total = slow * products + 4 * parts * steps.columns + _STEP_INSTRUCTIONS * steps.count
    moved = s.group * problem.M * problem.N * problem.itemsize * 2 / 512
    mine = _passes(problem) * total + 4 * s.rows * s.columns
    return float((c.WARPS if wide else 1) * mine + exchanged(problem, c) + moved * _COPY_INSTRUCTIONS)


def code_length(problem: Problem, c: Any) -> float:
    """Instructions of all reflections as they stand in the code."""
    steps, parts, words = _steps(problem, c), 2 if problem.is_complex else 1, problem.itemsize // 4
    each = 2 * parts * parts * steps.entries + words * steps.rows + 10 * parts * steps.columns
    return float(_passes(problem) * (each + _STEP_INSTRUCTIONS * steps.count) / max(1, c.LANES_M * c.ROLL))


def _passes(problem: Problem) -> int:
    """Q takes about as much as R."""
    return 2 if problem.want in ("reduced", "complete") else 1


def waited(problem: Problem, c: Any) -> float:
    """Clocks from the first to the last reflection: each waits for the one before it, and only other units can fill the
    time."""
    team, steps = c.LANES_M * c.LANES_N, _steps(problem, c)
    between = 0 if team == 1 else 2 if team <= 32 else 3
    each = _STEP_CLOCKS + _SHUFFLE_CLOCKS * (_rounds(c) + between)
    return float(_LATENCY + steps.count * each + 6 * steps.entries + 4 * steps.rows)


# Instructions per 16-byte copy of a warp, and of a reflection beside its products; clocks until a reflection is known,
# until other lanes know something, and until memory answers; the clock under load.
_COPY_INSTRUCTIONS, _STEP_INSTRUCTIONS, _STEP_CLOCKS, _SHUFFLE_CLOCKS, _LATENCY, _CLOCK = 8, 36, 320, 30, 2500, 1.75e9


reduction_seconds = costs.no_reduction


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a configuration's way of loading and storing reaches."""
    if c.VARIANT == "tensor":
        return 0.95
    return 0.85 if shape(problem, c).a.feed == "elements" else 1.0


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    if c.VARIANT == "tensor":
        return int(c.BLOCKS_PER_SM * problem.M * problem.N * problem.itemsize * 0.5)
    s = shape(problem, c)
    return int(c.BLOCKS_PER_SM * s.units * s.a.bytes * (0.5 if c.STAGES == 1 else c.STAGES - 0.6))


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does: slots are whole ones."""
    if c.VARIANT == "tensor":
        return int(_passes(problem) * tensor.products(problem, c) * 4096 * problem.BATCH)
    each = 4 * _steps(problem, c).entries * c.LANES_M * c.LANES_N
    return int((4 if problem.is_complex else 1) * _passes(problem) * each * problem.BATCH)


def unit_rate(problem: Problem, c: Any, machine: Machine) -> float:
    """Flops per second of the unit the variants compute with."""
    return 0.7 * float(machine.fma[REAL[problem.dtype]])


remarks = partial(costs.memory_bound, work)
