"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Range
from ...common.configs import OnCpu, piece
from ...common.vectors import bad_lanes, words_of

_MOST_PARTS = 128  # pieces of K at the most: as many threads find work, and adding them up stays a small part


@dataclass(frozen=True)
class Simd(OnCpu):
    """Register tiles over cache-resident blocks of rows; one operand is broadcast, the other read as vectors."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # reals per vector
    TILE_M: int = 4  # columns of the broadcast operand per register tile
    TILE_N: int = 2  # vectors of the other one (columns, where lanes run along K)
    UNROLL: int = 1  # independent copies of a tile's sums
    ROWS: Annotated[int, Range(1, 8192)] = 64  # rows per block
    SWAP: bool = False  # broadcast B instead of A
    EDGE: bool = False  # columns that fill no vector are broadcast against vectors of the other operand
    PACK: bool = False  # copy blocks to rows of an odd number of vectors
    # cache level that the next block is brought to; 0 leaves it to the hardware
    PREFETCH: Annotated[int, Range(0, 2)] = 1


def rows_major(problem: Problem) -> tuple[bool, bool]:
    """Whether A and B are read as rows. A single packed column is either: beside columns it is better read as one, in
    full vectors along K."""
    single_a, single_b = problem.M == problem.pitch_a == 1, problem.N == problem.pitch_b == 1
    row_a, row_b = problem.layout_a == "row", problem.layout_b == "row"
    return row_a and not (single_a and (single_b or not row_b)), row_b and not (single_b and (single_a or not row_a))


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    words, real = words_of(problem)
    row_a, row_b = rows_major(problem)
    y = problem.M if c.SWAP else problem.N
    registers = 12 if device.vector_bytes == 32 else 28
    if "any" in (problem.layout_a, problem.layout_b):
        return "arbitrary strides are copied to rows first"
    if reason := bad_lanes(c.LANES, real, device):
        return reason
    if c.ROWS % c.LANES:
        return f"ROWS={c.ROWS} is not a multiple of LANES={c.LANES}"
    if row_a != row_b and not c.PACK and row_a != c.SWAP:
        return "of mixed layouts the row-major operand must be the one read as vectors"
    if c.SWAP and problem.same:
        return "SWAP does nothing for A^H A"
    if c.EDGE and not ((row_a and row_b) or c.PACK):
        return "EDGE needs row-major operands, or PACK"
    if c.EDGE and words * y < c.LANES:
        return f"EDGE needs a whole vector in a row of {words * y} reals"
    if words * c.TILE_M * c.TILE_N * c.UNROLL > registers + 4:
        return f"{words * c.TILE_M * c.TILE_N * c.UNROLL} vector sums, about {registers} registers"
    return None


def default(problem: Problem, device: Device) -> Simd:
    """A good configuration by the widths alone."""
    words, real = words_of(problem)
    M, N = problem.M, problem.N
    row_a, row_b = rows_major(problem)
    full, sums = max(16, device.vector_bytes) // real, 12 if device.vector_bytes == 32 else 24
    few = words * max(M, N) <= 8 or words * min(M, N) <= 3  # so few visit a block that transposing it does not pay
    if not row_a and not row_b and few:  # lanes along K, no copies
        tile_m, tile_n = (M, N) if M * N * words <= sums else (min(M, sums // 3), min(N, 3 // words))
        whole = tile_m >= M and tile_n >= N
        unroll = max(1, 8 // (tile_m * tile_n * words))
        return Simd(full, tile_m, tile_n, unroll, 512, False, False, False, 0 if whole else 2)
    # rows a multiple of 1 KiB apart share so few lines of the first cache that a block does not fit
    clash = max(problem.pitch_a, problem.pitch_b) * problem.itemsize % 1024 == 0
    pack = not row_a and not row_b
    swap = (row_a if row_a != row_b else M > N) and not problem.same
    x, y = (N, M) if swap else (M, N)
    lanes = full
    while lanes > 2 and lanes // 2 >= words * y:
        lanes //= 2
    one = words * x * -(-words * y // lanes) <= (28 if sums == 24 else 12)  # a single padded tile holds all of C
    edge = not one and row_a == row_b and words * y > lanes and words * y % lanes > 0
    vectors = words * y // lanes if edge else -(-words * y // lanes)
    tile_n = vectors if one else piece(vectors, 2 if vectors <= 4 or sums == 12 else 4)
    tile_m = x if one else piece(x, max(1, sums // tile_n // words))
    single = -(-x // tile_m) * -(-vectors // tile_n) + edge == 1
    row_bytes = max(x, y) * words * real
    rows = max(64, min(512, 8192 // row_bytes // 64 * 64)) if single else 256 if pack and row_bytes >= 384 else 64
    if row_a and row_b and row_bytes >= 768:
        rows, pack = (64, True) if clash else (32, False)
    unroll = max(1, min(4, 8 // (words * tile_m * tile_n))) if single else 1
    return Simd(lanes, tile_m, tile_n, unroll, rows, swap, edge, pack, 1 if single else 2)


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """The default and what lies around it."""
    first = default(problem, device)
    flags: tuple[dict[str, Any], ...] = (
        {"SWAP": not first.SWAP},
        {"EDGE": not first.EDGE},
        {"PACK": not first.PACK},
        {},
    )
    variations = [replace(first, **flag) for flag in flags]
    for base in variations:
        for tile_m in {base.TILE_M, *range(2, 15, 2)}:
            for tile_n in (1, 2, 3, 4):
                for rows in (32, 64, 128, 256):
                    for prefetch in (0, 1, 2):
                        config = replace(base, TILE_M=tile_m, TILE_N=tile_n, ROWS=rows, PREFETCH=prefetch, UNROLL=1)
                        if tile_m <= max(problem.M, problem.N) and illegal(problem, config, device) is None:
                            yield config
    yield first


def parts(problem: Problem) -> int:
    """Pieces of K that threads sum independently: fixed by the problem alone, so that the result does not depend on
    the number of threads."""
    elements: int = problem.K * (problem.M + problem.N)
    return max(1, min(_MOST_PARTS, elements // int(max(1 << 17, 16 * problem.M * problem.N))))


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """Partial sums of every part, and a buffer per thread for rows that must be copied."""
    words, real = words_of(problem)
    x, y = (problem.N, problem.M) if c.SWAP else (problem.M, problem.N)
    x_padded, y_padded = -(-words * x // c.LANES) * c.LANES, -(-words * y // c.LANES) * c.LANES
    x_pitch, y_pitch = (n + (n // c.LANES + 1) % 2 * c.LANES if c.PACK else n for n in (x_padded, y_padded))
    edge = words * y % c.LANES if c.EDGE else 0
    leading = words * y - edge if edge else y_padded
    sums = parts(problem) * (words * x * leading + edge * x_padded)
    return int(real * (sums + threads * (c.ROWS if c.PACK else c.LANES) * (x_pitch + y_pitch)))
