"""Bytes, flops, registers and shared memory of a powers problem and its configurations: what model and pruning use."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import ITEMSIZE, Problem
from ...common import costs
from ...common.configs import up
from .spec import INDICES


def entry_bytes(problem: Problem) -> int:
    """Of a stored value and its column."""
    return int(ITEMSIZE[problem.values] + INDICES[problem.index])


def product_bytes(problem: Problem) -> int:
    """The least that one product moves: the matrix, its lengths, x and y."""
    lengths = 4 * problem.ROWS if problem.ragged else 0
    vectors = 2 * problem.ROWS * problem.NVECS * problem.itemsize
    return int(problem.NNZ * entry_bytes(problem) + lengths + vectors)


def work(problem: Problem) -> Work:
    """The least all powers must move: the matrix once, x once, every vector that is asked for once."""
    vector = problem.ROWS * problem.NVECS * problem.itemsize
    written = {"all": problem.P, "last": 1, "combination": problem.sets}[problem.output]
    flops = problem.P * problem.NNZ * problem.NVECS * (8 if problem.is_complex else 2)
    return Work(problem.NNZ * entry_bytes(problem) + vector, written * vector, flops, problem.dtype)


def retained(text: str) -> tuple[int, ...]:
    """Powers of each group that shares a copy of a tile: "1|2|2" is (1, 2, 2)."""
    return tuple(int(part) for part in text.split("|"))


def slots_needed(c: Any) -> int:
    """What retention holds, and one tile ahead for every group."""
    lengths = retained(c.RETAIN)
    return sum((length - 1) * c.LAG + 2 for length in lengths)


def firsts(c: Any) -> int:
    """Bit k - 1: power k is the first of its group."""
    bits, k = 0, 0
    for length in retained(c.RETAIN):
        bits |= 1 << k
        k += length
    return bits


def threads(problem: Problem, c: Any) -> int:
    """Threads per block."""
    return int(c.BLOCK if c.VARIANT == "groups" else 32 * (c.WARPS + 2))


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block: barriers, coefficients, tables, words for waiting, slots."""
    if c.VARIANT == "groups":
        return 0
    words = 32 * problem.P + len(retained(c.RETAIN)) + 1
    head = 16 * (c.SLOTS + problem.P) + 3 * problem.P * problem.itemsize + 4 * words
    return int(up(head, 128) * 128 + c.SLOTS * c.SLOT_BYTES)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    words = problem.itemsize // 4 * problem.NVECS
    column = 2 if problem.index == "int64" else 1
    if c.VARIANT == "groups":
        return int(c.UNROLL * (words + column + ITEMSIZE[problem.values] // 4) + words * (1 + problem.shifted) + 28)
    sums = c.ABREAST * words * (1 + problem.shifted + problem.three_term)
    return int(c.ABREAST * c.UNROLL * (max(2, words) + 0.3 * column) + sums + 2 * c.TILE + 48)


def blocks(c: Any, device: Device, tiles: int) -> int:
    """Of a persistent launch: one per multiprocessor, and no more than there are tiles."""
    return int(max(1, min(device.multiprocessors, tiles)))


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Per multiprocessor."""
    if c.VARIANT == "groups":
        resident = min(2048 // c.BLOCK, 65536 // (registers(problem, c) * c.BLOCK)) * c.BLOCK
        return int(resident * c.UNROLL * entry_bytes(problem))
    return int((c.SLOTS - slots_needed(c) + len(retained(c.RETAIN))) * c.SLOT_BYTES)


def executed_flops(problem: Problem, c: Any) -> int:
    """Padding is not computed with."""
    return work(problem).flops


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that each resource of the device needs at the least, with this configuration."""
    seconds = {"arithmetic": work(problem).flops / machine.fma["float64" if problem.itemsize > 4 else "float32"]}
    if c.VARIANT == "groups":  # whatever the cache keeps of it is the caller's to say
        seconds["products"] = problem.P * product_bytes(problem) / machine.read_bandwidth
    return seconds


reduction_seconds = costs.no_reduction


def bandwidth_share(problem: Problem, c: Any) -> float:
    """The share of the bandwidth that a variant's way of loading reaches."""
    return 0.95


def remarks(problem: Problem, c: Any, device: Device, machine: Machine) -> list[str]:
    """For `explain()`."""
    if c.VARIANT != "persistent":
        return []
    kept = c.RETAIN.replace("|", " + ")
    return [f"powers {kept} share a copy of a tile; each runs {c.LAG} turns behind the one before"]
