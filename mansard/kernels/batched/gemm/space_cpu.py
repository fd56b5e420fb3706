"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Range
from ...common import measured
from ...common.configs import OnCpu, piece
from ...common.vectors import bad_lanes, registers_of, words_of

_CACHED_BYTES = 1 << 25  # bytes of all operands; less may still be in the last cache when it is needed again
_GROUP_BYTES = 512  # bytes of C that leave together, as the kernel has it
_LINE = 64  # bytes of a cache line
_NEAR_BYTES = 4096  # bytes of a matrix, a page: the first cache has room for the next one beside this one
_AHEAD, _AHEAD_FAR = 4096, 8192  # bytes that a prefetch runs ahead, to the first cache and to the second: pages


@dataclass(frozen=True)
class Simd(OnCpu):
    """Tiles of C in registers, rows of one operand as vectors; of interleaved stacks, a matrix in every lane."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector
    TILE_M: int = 4  # rows of C (of its transpose, where C is column-major) per register tile
    TILE_N: int = 2  # vectors of columns per register tile; columns, of interleaved stacks
    UNROLL: int = 1  # steps along K per turn of the inner loop
    STREAM: bool = False  # write C past the caches
    # cache level that matrices to come are brought to; 0 leaves it to the hardware
    PREFETCH: Annotated[int, Range(0, 2)] = 0
    AHEAD: Annotated[int, Range(0, 1 << 20)] = 4096  # how far ahead, in bytes
    GATHER: bool = False  # write C in whole cache lines, but to the caches


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    words, real = words_of(problem)
    stacks = [getattr(problem, f"stack_{side}") for side in "abc"]
    sums, registers = c.TILE_M * c.TILE_N * words, registers_of(device) - 2
    if "any" in (problem.layout_a, problem.layout_b, problem.layout_c):
        return "arbitrary strides are copied to rows first"
    if problem.stack_c == "shared":
        return "the matrices of C need a place each"
    if "interleaved" in stacks and (stacks[2] != "interleaved" or set(stacks) - {"interleaved", "shared"}):
        return "where one stack is interleaved, C is, and A and B are, or are shared"
    least = max(words, 2) if problem.stack_c == "interleaved" else words
    if reason := bad_lanes(c.LANES, real, device, least):
        return reason
    if problem.stack_c == "interleaved" and words * _interleaved(problem) % c.LANES:
        return f"LANES={c.LANES} does not divide the {words * _interleaved(problem)} reals side by side"
    if min(c.TILE_M, c.TILE_N) < 1 or sums > registers:
        return f"{sums} vector sums, about {registers} registers"
    if not 1 <= c.UNROLL <= problem.K:
        return f"UNROLL={c.UNROLL} steps along K, which has {problem.K}"
    if c.STREAM and (problem.accumulate or problem.stack_c not in ("packed", "interleaved")):
        return "only a C without gaps that is not read can be written past the caches"
    if c.GATHER and (c.STREAM or problem.accumulate or problem.stack_c != "packed"):
        return "GATHER: only for a C without gaps that is not read, and without STREAM"
    return None


def default(problem: Problem, device: Device) -> Simd:
    """A good configuration by the sizes alone."""
    interleaved, size = problem.stack_c == "interleaved", problem.M * problem.N * problem.itemsize
    large = _bytes(problem) >= _CACHED_BYTES
    stream = large and not problem.accumulate and problem.stack_c in ("packed", "interleaved")
    near = max(problem.M * problem.K, problem.K * problem.N) * problem.itemsize <= _NEAR_BYTES
    if interleaved:
        first = _interleaved_tile(problem, device)
    else:
        first = _short_tile(problem, device) if device.vector_bytes <= 16 else _tile(problem, device)
        stream = stream and bool(measured.number("gemm", device, "STREAM", 1))
        near = near or bool(measured.number("gemm", device, "NEAR", 0))
    prefetch = (1 if near else 2) if large else 0
    if size < measured.number("gemm", device, "PREFETCH_FROM", 0) and size % _LINE:
        prefetch = 0
    ahead = measured.number("gemm", device, "AHEAD", _AHEAD if near else _AHEAD_FAR)
    gather = False
    if stream and device.vector_bytes == _LINE and problem.stack_c == "packed":
        stream, gather = _to_lines(problem, first)
    return replace(first, STREAM=stream, PREFETCH=prefetch, AHEAD=ahead, GATHER=gather)


def _to_lines(problem: Problem, tile: Simd) -> tuple[bool, bool]:
    """STREAM and GATHER where a store may fill a cache line, which then need not be read first: rows of whole lines and
    parts of rows are written as they come, other rows in lines; matrices that leave at once go past the caches."""
    words, real = words_of(problem)
    row, size = words * _oriented(problem)[1], problem.M * problem.N * problem.itemsize
    if size <= _GROUP_BYTES and (problem.dtype == "float64" or row * real % _LINE):
        return True, False
    return False, bool(row * real % _LINE) and row <= tile.TILE_N * tile.LANES


_BESIDE_SUMS = 8  # vector registers for operands, addresses and masks
_WRITTEN_OUT = 32  # steps along K up to which they are written out: a loop that ends after every tile is mispredicted


def _short_tile(problem: Problem, device: Device) -> Simd:
    """For vectors of 16 bytes, 32 registers of which hold whole rows of small matrices: A is then read once, and all
    operands in the order of their memory. As many rows as registers have room for, unless a sweep says otherwise."""
    words, _ = words_of(problem)
    rows, columns = _oriented(problem)
    first = _tile(problem, device)
    tile_n = first.TILE_N if words == 2 else _short_panel(columns, first.LANES)
    most = max(1, (registers_of(device) - _BESIDE_SUMS) // (tile_n * words))
    name = "TILE_M_COMPLEX" if words == 2 else "TILE_M"
    tile_m = measured.number("gemm", device, name, most, rows=rows, columns=columns, vectors=tile_n)
    unroll = problem.K if words == 1 and problem.K <= _WRITTEN_OUT else min(8, problem.K)
    return replace(first, TILE_M=max(1, min(rows, tile_m, most)), TILE_N=tile_n, UNROLL=unroll)


def _short_panel(columns: int, lanes: int) -> int:
    """Vectors of a row that a tile takes: all of nine, or of eleven if none is half empty; of longer rows a part. What
    is left of four lanes comes in two pieces, which want registers as well."""
    vectors, whole = -(-columns // lanes), columns % lanes == 0
    if vectors <= (11 if whole else 9 if lanes == 2 else 4):
        return vectors
    return piece(vectors, 4 if lanes > 2 and not whole else 7 if vectors < 14 else 5)


def _tile(problem: Problem, device: Device) -> Simd:
    words, real = words_of(problem)
    rows, columns = _oriented(problem)
    lanes = max(16, device.vector_bytes) // real
    while lanes // 2 >= words * columns and (lanes * real > 16 or device.vector_bytes == 16 or columns == 1):
        lanes //= 2  # x86 has no vectors of eight bytes, but masks
    sums = registers_of(device) - (4 if device.vector_bytes == 32 else 8)
    tile_n = piece(-(-words * columns // lanes), 4 if sums == 24 and words == 1 else 2)
    tile_m = max(1, min(rows, 12, sums // (tile_n * words)))
    return Simd(lanes, tile_m, tile_n, _unroll(problem.K, 128 // (tile_m * tile_n * words)))


def _interleaved_tile(problem: Problem, device: Device) -> Simd:
    words, real = words_of(problem)
    lanes = max(16, device.vector_bytes) // real
    while words * _interleaved(problem) % lanes:
        lanes //= 2
    side = 3 if registers_of(device) == 16 or words == 2 else 4
    return Simd(lanes, piece(problem.M, side), piece(problem.N, side), 1)


def _unroll(steps: int, limit: int) -> int:
    """As many steps as the limit allows, or half of them if that leaves no rest."""
    limit = max(1, min(steps, 8, limit))
    return max(range(1, limit + 1), key=lambda unroll: (steps % unroll == 0 and 2 * unroll >= limit, unroll))


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """The default and what lies around it."""
    first = default(problem, device)
    lanes = {first.LANES, 2 * first.LANES, first.LANES // 2}
    fetches = ((first.PREFETCH, first.AHEAD), (0, 4096), (1, 2048), (2, 8192))
    stores = dict.fromkeys(((first.STREAM, first.GATHER), (False, False), (first.STREAM or first.GATHER, False)))
    flags = dict.fromkeys(product(stores, fetches))
    tiles = product((1, 2, 3, 4, 6, 8, 12), (1, 2, 3, 4), (1, 2, 4, 8))
    rows, _ = _oriented(problem)
    for (tile_m, tile_n, unroll), width, ((stream, gather), (prefetch, ahead)) in product(tiles, sorted(lanes), flags):
        config = Simd(width, tile_m, tile_n, unroll, stream, prefetch, ahead, gather)
        if tile_m <= max(rows, problem.M) and illegal(problem, config, device) is None:
            yield config
    yield first


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """For each thread the vectors' operand in rows, where it has columns, and results on their way out."""
    if problem.stack_c == "interleaved":
        return 0
    words, real = words_of(problem)
    widest = words * max(problem.M, problem.N)  # whichever way round the product is formed

    def padded(reals: int) -> int:
        return -(-reals * real // _LINE) * _LINE

    packed = problem.K * padded(widest)
    block = 2 * _GROUP_BYTES + padded(words * problem.M * problem.N)
    return int(threads * (packed + (c.STREAM or c.GATHER) * block))


def _oriented(problem: Problem) -> tuple[int, int]:
    """Rows and columns of C as the kernel forms it: lanes run along its columns."""
    tight = problem.pitch_c == (problem.N if problem.layout_c == "row" else problem.M)
    swap = problem.N < problem.M if tight and 1 in (problem.M, problem.N) else problem.layout_c == "col"
    return (problem.N, problem.M) if swap else (problem.M, problem.N)


def _interleaved(problem: Problem) -> int:
    """Matrices side by side in an interleaved C."""
    return int(problem.pitch_c // (problem.N if problem.layout_c == "row" else problem.M))


def _bytes(problem: Problem) -> int:
    sizes = {"a": problem.M * problem.K, "b": problem.K * problem.N, "c": problem.M * problem.N}
    each = sum(size for side, size in sizes.items() if getattr(problem, f"stack_{side}") != "shared")
    return int(problem.BATCH * each * problem.itemsize)
