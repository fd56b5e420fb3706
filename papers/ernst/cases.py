"""The experiments of Ernst et al., Performance engineering for real and complex tall & skinny matrix multiplication
kernels on GPUs: figures 15, 16 and 19 on A^H B, figures 20 to 22 on A C. Each varies one parameter of one kernel."""

from __future__ import annotations

from itertools import product
from typing import Any

from mansard.bench.cases import Case, Size, gpu_only

_TILES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 16)
_EXPERIMENT = (4, 8, 16, 32, 64)
_SEARCHED = (32, 64, 16, 48, 12)  # in the order in which they are measured: what a time limit leaves out comes last


def _tiled_pins(m: int, tile_m: int, tile_n: int, **pins: Any) -> tuple[tuple[str, Any], ...]:
    """Tile and flags; the block grows only where a row of C needs more threads."""
    threads = -(-m // tile_m) * -(-m // tile_n)
    block = next((size for size in (256, 512, 1024) if size >= threads), 1024)
    return tuple({"VARIANT": "tiled", "TILE_M": tile_m, "TILE_N": tile_n, "BLOCK": block, **pins}.items())


@gpu_only
def tilesize(size: Size) -> list[Case]:
    """Figure 16: speed against both tile sizes, M = N = 32, leap-frogging and transposed."""
    cases, m = [], 32
    for tile_m, tile_n, per_sm in product(_TILES, _TILES, (1, 2)):
        pins = _tiled_pins(m, tile_m, tile_n, TRANSPOSED=True, LEAPFROG=True, BLOCKS_PER_SM=per_sm)
        cases.append(Case("tilesize", "float64", m, m, size.rows("float64", m), pins=pins, peers=False))
    return cases


@gpu_only
def mapping(size: Size) -> list[Case]:
    """Figure 15: leap-frogging x transposition; the picture shows the best tile of each."""
    cases = []
    for m, transposed, leapfrog in product((*range(4, 65, 4),), (True, False), (True, False)):
        for tile, per_sm in ((2, 4), (4, 4), (4, 2), (6, 2), (8, 1)):
            if tile <= m and m // tile <= 32:
                pins = _tiled_pins(m, tile, tile, TRANSPOSED=transposed, LEAPFROG=leapfrog, BLOCKS_PER_SM=per_sm)
                cases.append(Case("mapping", "float64", m, m, size.rows("float64", m), pins=pins, peers=False))
    return cases


@gpu_only
def mapping_search(size: Size) -> list[Case]:
    """Figure 15 with a search: every tile of at most 256 registers whose sides differ by a factor of two at most."""
    cases = []
    for m, transposed, leapfrog in product(_SEARCHED, (True, False), (True, False)):
        for tile_m, tile_n in product(_TILES, _TILES):
            registers = 2 * (tile_m * tile_n + 2 * (tile_m + tile_n) + 8)  # the paper's formula
            if max(tile_m, tile_n) > min(2 * min(tile_m, tile_n), m) or registers > 256:
                continue
            per_sm = min(4, 65536 // (256 * registers))  # blocks of 256 threads that the registers of an SM allow
            pins = _tiled_pins(m, tile_m, tile_n, TRANSPOSED=transposed, LEAPFROG=leapfrog, BLOCKS_PER_SM=per_sm)
            cases.append(Case("mapping_search", "float64", m, m, size.rows("float64", m), pins=pins, peers=False))
    return cases


@gpu_only
def reduction(size: Size) -> list[Case]:
    """Figure 19: what each reduction costs as K grows, for a narrow and a wide product."""
    cases = []
    for (m, tile), reduce in product(((4, 4), (32, 8)), ("ticket", "sliced", "block", "atomic")):
        pins = _tiled_pins(m, tile, tile, BLOCKS_PER_SM=1, REDUCE=reduce)
        for power in range(6, 17):  # K from 1e3 to 1e8 in half decades
            rows = round(10 ** (power / 2))
            if rows * m <= size.elements["float64"]:
                cases.append(Case("reduction", "float64", m, m, rows, mode="graph", temperature="hot", pins=pins,
                                  deterministic=False, peers=False))  # fmt: skip
    return cases


def _experiment(name: str, size: Size, m: int, **pins: Any) -> Case:
    """One kernel of the paper's; a block of 256 threads."""
    pinned = tuple({"VARIANT": "threads", "TRANSPOSED": True, "BLOCK": 256, **pins}.items())
    rows = size.rows("float64", m)
    return Case(name, "float64", m, m, rows, pins=pinned, peers=False, operation="tsmm")


def _per_row(m: int, *wanted: int) -> list[int]:
    """Threads per row that make sense."""
    return sorted({count for count in (*wanted, m) if count <= m})


@gpu_only
def source(size: Size) -> list[Case]:
    """Figure 20 of Ernst et al.: C from registers, shared memory or cache; the picture shows the best of each."""
    return [
        _experiment("source", size, m, SOURCE=place, PER_ROW=per_row, UNROLL=unroll, BLOCKS_PER_SM=per_sm)
        for m, place in product(_EXPERIMENT, ("registers", "shared", "cache"))
        for per_row, unroll, per_sm in product(_per_row(m, 4, 16), (1, 2), (1, 4))
    ]


@gpu_only
def unroll(size: Size) -> list[Case]:
    """Figure 21: rows per thread at once; the picture shows the best of each."""
    return [
        _experiment("unroll", size, m, SOURCE=place, PER_ROW=per_row, UNROLL=count, BLOCKS_PER_SM=per_sm)
        for m, count in product(_EXPERIMENT, (1, 2, 3, 4))
        for place, per_row, per_sm in product(("shared", "cache"), _per_row(m, 4, 16), (1, 4))
    ]


@gpu_only
def threads(size: Size) -> list[Case]:
    """Figure 22: threads per row; the picture shows the best of each."""
    return [
        _experiment("threads", size, m, SOURCE=place, PER_ROW=per_row, UNROLL=count, BLOCKS_PER_SM=per_sm)
        for m in _EXPERIMENT
        for per_row, count in product(_per_row(m, 1, 2, 4, 8, 16, 32), (1, 2))
        for place, per_sm in product(("shared", "cache"), (1, 4))
    ]
