"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Range
from ...common import measured
from ...common.configs import OnCpu, piece
from ...common.vectors import bad_lanes, words_of

_CACHED_BYTES = 1 << 25  # bytes of A and W together; less may still be in the last cache when it is needed again
_FIRST_CACHE = 16 << 10  # bytes: half of a first cache of 32 KiB, which a block of A may take
_MOST_ROWS = 8  # rows of a register tile: more broadcasts of A than that wait for each other


@dataclass(frozen=True)
class Simd(OnCpu):
    """Register tiles over cache-resident blocks of rows; lanes run in the direction in which W is adjacent."""

    VARIANT: ClassVar[str] = "simd"
    ALONG_K: bool = False  # lanes run along K
    LANES: int = 4  # reals per vector
    TILE_K: int = 4  # rows per register tile (vectors of rows, where lanes run along K)
    TILE_N: int = 2  # vectors of columns of W per register tile (columns, where lanes run along K)
    ROWS: Annotated[int, Range(1, 8192)] = 64  # rows per block
    PACK: bool = False  # copy blocks of A
    STREAM: bool = False  # write W past the caches
    # cache level that the next block of A is brought to; 0 leaves it to the hardware
    PREFETCH: Annotated[int, Range(0, 2)] = 1


def _sums(device: Device) -> int:
    """Registers for a tile's sums; 32-byte vectors have half as many registers as the others."""
    return 12 if device.vector_bytes == 32 else 24


def illegal(problem: Problem, c: Simd, device: Device) -> str | None:
    """Why the configuration cannot be used, or None if it can."""
    words, real = words_of(problem)
    step = _step(problem, c)
    sums, registers = c.TILE_K * c.TILE_N * (words if c.ALONG_K else 1), _sums(device) + 4
    if "any" in (problem.layout_a, problem.layout_w):
        return "arbitrary strides are copied to rows first"
    if (problem.layout_w == "col") != c.ALONG_K and not (c.ALONG_K and _column(problem.N, problem.pitch_w)):
        return "lanes run in the direction in which W is adjacent"
    if reason := bad_lanes(c.LANES, real, device):
        return reason
    if min(c.TILE_K, c.TILE_N) < 1 or c.ROWS % (c.TILE_K * step):
        return f"ROWS={c.ROWS} is not a multiple of the {c.TILE_K * step} rows of a tile"
    if sums > registers:
        return f"{sums} vector sums, about {registers} registers"
    return None


def default(problem: Problem, device: Device) -> Simd:
    """A good configuration by the widths alone."""
    along_k = problem.layout_w == "col" or _column(problem.N, problem.pitch_w)
    adjacent = problem.K if along_k or problem.pitch_w == problem.N else problem.N  # entries of W in one run
    large = problem.K * (problem.M + problem.N) * problem.itemsize >= _CACHED_BYTES
    stream = large and adjacent * problem.itemsize >= 256 and not problem.in_place
    return _along_rows(problem, device, stream) if along_k else _along_columns(problem, device, stream)


def _column(width: int, pitch: int) -> bool:
    """A single column without gaps, which is both row- and column-major."""
    return width == 1 and pitch == 1


def _along_columns(problem: Problem, device: Device, stream: bool) -> Simd:
    words, real = words_of(problem)
    lanes = max(16, device.vector_bytes) // real
    while lanes > 2 and lanes // 2 >= words * problem.N:
        lanes //= 2
    vectors = -(-words * problem.N // lanes)
    tile_n = piece(vectors, measured.number("tsmm", device, "PANEL", 4 if _sums(device) == 24 else 3))
    fitting = min(_MOST_ROWS, _sums(device) // tile_n)
    tile_k = measured.number("tsmm", device, "TILE_K", fitting, vectors=tile_n)
    row_bytes = problem.M * problem.itemsize
    # rows of a wider matrix, a multiple of 1 KiB apart, share so few lines of the first cache that a block does not fit
    clash = problem.pitch_a > problem.M and problem.pitch_a * problem.itemsize % 1024 == 0
    pack = clash and tile_n < vectors if problem.layout_a == "row" else problem.M > 1
    block_bytes = _FIRST_CACHE // 2 if tile_n == vectors else _FIRST_CACHE
    rows = tile_k * max(6, block_bytes // (row_bytes * tile_k))
    prefetch = 1 if rows * row_bytes <= _FIRST_CACHE else 2
    prefetch *= measured.number("tsmm", device, "PREFETCHES", 1)  # 0: to some cores a prefetch is one of few loads
    return Simd(False, lanes, tile_k, tile_n, rows, pack, stream, prefetch)


def _along_rows(problem: Problem, device: Device, stream: bool) -> Simd:
    words, real = words_of(problem)
    lanes = max(16, device.vector_bytes) // real
    tile_n = piece(problem.N, _sums(device) // (3 if words == 1 else 4))
    tile_k = 4 if 4 * words * tile_n <= _sums(device) else 2  # even: blocks of whole cache lines
    step = tile_k * lanes // words
    rows = max(64 * words, min(512, 32768 // (max(problem.M, problem.N) * problem.itemsize)))
    return Simd(True, lanes, tile_k, tile_n, -(-rows // step) * step, False, stream, 2)


def candidates(problem: Problem, device: Device) -> Iterator[Simd]:
    """The default and what lies around it."""
    first = default(problem, device)
    step = _step(problem, first)
    flags = product((False, True), (first.STREAM, False), (0, 1, 2))
    tiles = tuple(product((1, 2, 4, 6, 8, 12), (1, 2, 3, 4, 6, 8), (first.ROWS // 2, first.ROWS, 2 * first.ROWS)))
    for (pack, stream, prefetch), (tile_k, tile_n, rows) in product(dict.fromkeys(flags), tiles):
        rows = -(-rows // (tile_k * step)) * tile_k * step
        config = Simd(first.ALONG_K, first.LANES, tile_k, tile_n, rows, pack, stream, prefetch)
        if tile_n <= problem.N and illegal(problem, config, device) is None:
            yield config
    yield first


def workspace_bytes(problem: Problem, c: Simd, threads: int) -> int:
    """C in the order of the tiles, and for each thread a block of W and, where it may have to be copied, one of A."""
    words, real = words_of(problem)
    line = 64 // real

    def padded(reals: int, unit: int) -> int:
        return -(-reals // unit) * unit

    if not c.ALONG_K:
        panels = padded(words * problem.M * padded(words * problem.N, c.LANES), line)
        block_w, block_a = c.ROWS * words * problem.N, c.PACK * c.ROWS * (-(-words * problem.M // line) | 1) * line
    else:
        panels, column = padded(problem.M * words * problem.N, line), words * c.ROWS + line
        block_w, block_a = problem.N * column, problem.M * (-(-column // line) | 1) * line
    return int(real * (panels + threads * (padded(block_w, line) + 2 * line + block_a)))


def _step(problem: Problem, c: Simd) -> int:
    """Rows per row of a register tile."""
    return c.LANES // words_of(problem)[0] if c.ALONG_K else 1
