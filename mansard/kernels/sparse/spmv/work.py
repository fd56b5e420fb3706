"""Bytes, flops, registers and shared memory of spmv problems and configurations: what model and pruning use."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import ITEMSIZE, REAL, Problem
from ...common import costs
from ...common.configs import up
from .spec import INDEX_BYTES


def work(problem: Problem) -> Work:
    """The least a product must move and compute: the matrix once, every vector once, no padding."""
    vectors = problem.NVECS * problem.itemsize
    read = matrix_bytes(problem) + problem.COLS * vectors
    if problem.accumulate or problem.recurrence:
        read += problem.ROWS * vectors  # of Y, or of Z
    pairs = problem.is_complex, problem.values.startswith("complex")
    flops = {(False, False): 2, (True, False): 4, (True, True): 8}[pairs]
    return Work(int(read), int(problem.ROWS * vectors), int(flops * problem.NNZ * problem.NVECS), problem.dtype)


def matrix_bytes(problem: Problem) -> int:
    """Entries and what says where they belong."""
    entry = ITEMSIZE[problem.values] + INDEX_BYTES[problem.index]
    if problem.format == "csr":
        return int(problem.NNZ * entry + problem.ROWS * (8 if problem.wide else 4))
    # chunks' places, bases of columns, rows' lengths where they differ, rows' numbers where they are not in order
    chunks = problem.ROWS / problem.C if problem.format == "sell" else 0
    bases = 4 * problem.NNZ / problem.C if problem.index == "delta16" else 0
    return int(problem.NNZ * entry + bases + 8 * chunks + 4 * problem.ROWS * problem.permuted)


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.BLOCK)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block: of `merge`, the products and sums, and where rows end."""
    if c.VARIANT != "merge":
        return 0
    items, warps = c.BLOCK * c.PER_THREAD, c.BLOCK // 32
    return up((items + 1 + warps) * problem.itemsize + (items + warps) * 4, 128) * 128


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    words, value = problem.itemsize // 4, max(1, ITEMSIZE[problem.values] // 4)
    index = 2 if problem.index == "int64" else 1
    if c.VARIANT in ("sell", "csr"):
        held = c.UNROLL * (value + words + 0.5 * index)
        return int(min(255, 22 + held + (4 if problem.index == "delta16" else 0)))
    if c.VARIANT == "merge":
        return int(min(255, 26 + c.PER_THREAD * (value + words) + words))
    pack = problem.vector * words
    if c.VARIANT == "rows":
        return int(min(255, 34 + (c.LANES_N + 1) * pack + value + index))
    passes, several = up(problem.C, 32 // c.LANES_N), problem.C < 32
    return int(min(255, 34 + 2 * passes * (pack + 1) + c.UNROLL * (value + index) + 12 * several))


def tiles(problem: Problem, c: Any) -> int:
    """Pieces of the columns that a warp has one of."""
    return int(up(problem.NVECS, c.LANES_N * problem.vector))


def grid(problem: Problem, c: Any) -> tuple[int, int, int]:
    """Blocks of a launch: as many as there is work."""
    if c.VARIANT == "csr":
        return max(1, up(problem.ROWS * c.THREADS, c.BLOCK)), 1, 1
    if c.VARIANT == "merge":
        return merge_blocks(problem, c), problem.NVECS, 1
    if c.VARIANT == "rows":
        return max(1, up(problem.ROWS * tiles(problem, c), c.BLOCK // c.LANES)), 1, 1
    chunks, warps = up(problem.ROWS, problem.C), c.BLOCK // 32
    if c.VARIANT == "block":
        return max(1, up(chunks * tiles(problem, c), warps)), 1, 1
    return max(1, up(chunks, warps * c.CHUNKS)), 1, 1


def merge_blocks(problem: Problem, c: Any) -> int:
    return max(1, up(problem.ROWS + problem.NNZ, c.BLOCK * c.PER_THREAD))


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    rate = 0.8 * float(machine.fma[REAL[problem.dtype]])
    gathered = problem.NNZ * problem.NVECS * problem.itemsize
    clocks = device.multiprocessors * _CLOCK
    return {"arithmetic": work(problem).flops / rate, "L1 cache": gathered / 64 / clocks}


reduction_seconds = costs.no_reduction


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a variant's way of loading reaches."""
    if c.VARIANT == "csr":  # lanes beyond a row's end idle, rows begin anywhere
        mean = problem.NNZ / max(1, problem.ROWS)
        busy = mean / (up(int(mean) + 1, c.THREADS) * c.THREADS)
        return float(0.9 * min(1.0, busy) * min(1.0, 0.25 + c.THREADS / 8))
    return 0.9 if c.VARIANT in ("merge", "rows") else 1.0


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes a multiprocessor has under way at once: what Little's law compares with latency times bandwidth."""
    entry = ITEMSIZE[problem.values] + INDEX_BYTES[problem.index]
    mean = max(1, up(problem.NNZ, max(1, problem.ROWS)))
    if c.VARIANT in ("sell", "csr"):
        lanes = c.THREADS if c.VARIANT == "csr" else 32 // problem.C
        held = min(c.UNROLL, up(mean, lanes))
    else:
        held = {"merge": getattr(c, "PER_THREAD", 1), "block": getattr(c, "UNROLL", 1)}.get(c.VARIANT, 1)
    return int(0.5 * c.BLOCKS_PER_SM * c.BLOCK * held * entry)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops the kernel really does: padding is not multiplied."""
    return work(problem).flops


def remarks(problem: Problem, c: Any, device: Device, machine: Machine) -> list[str]:
    """How much of what is moved is the matrix."""
    least = work(problem)
    if not least.bytes:
        return []
    share = matrix_bytes(problem) / least.bytes
    floor = least.bytes / machine.read_bandwidth * 1e6
    return [f"bound    {floor:.4g} us at the speed of reading; {100 * share:.3g} % of the bytes are the matrix's"]


_CLOCK = 1.75e9  # under load
