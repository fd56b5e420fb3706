"""Experiments with batches of products: several matrices per block, the read-only cache, pinned kernels, streams."""

from __future__ import annotations

from itertools import product
from typing import Any

from ..cases import Case, Size
from .routines import count

_SIZES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)
_PER_BLOCK = (1, 2, 4, 8, 16, 32, 64)
_TEAMS = ((8, 4), (4, 4), (4, 2), (2, 2), (2, 1), (1, 1))  # lanes per matrix
_RANKS = (8, 16, 32)
_WIDE = (32, 48, 64, 96, 128, 160, 192, 224, 256)
# rows and columns of threads, and of a tile: Dong's table 3.2; their columns are our rows
_TABLE = {93: (16, 8, 32, 24), 107: (16, 16, 32, 48), 111: (16, 16, 48, 32), 116: (16, 16, 64, 32)}
_TENSOR = {"64 x 64": (2, 2, 64, 64), "128 x 64": (4, 2, 128, 64)}  # warps, and a tile
_STREAMED, _MATRICES = (32, 64, 128, 192, 256, 384, 512), 500


def _pinned(name: str, size: Size, n: int, inner: int = 0, **pins: Any) -> Case:
    matrices = count(size, "float64", n * n + 2 * n * (inner or n))
    inner = 0 if inner == n else inner  # one name for squares, whoever asks for them
    options: dict[str, Any] = {"operation": "gemm", "inner": inner, "peers": not pins}
    return Case(name, "float64", n, n, matrices, pins=tuple(pins.items()), **options)


def _per_entry(n: int, matrices: int) -> dict[str, Any]:
    """The kernel through the read-only cache with a thread per entry; registers decide how many blocks fit."""
    return {"VARIANT": "readonly", "DIM_X": n, "DIM_Y": n, "PER_BLOCK": matrices, "BLOCKS_PER_SM": 1}


def tba(size: Size) -> list[Case]:
    """Figure 6b of Masliah et al.: matrices per block, kernels `readonly` (a thread per entry) and `lanes`."""
    cases = []
    for n, matrices in product(_SIZES, _PER_BLOCK):
        if n * n * matrices <= 1024:
            cases.append(_pinned("tba", size, n, **_per_entry(n, matrices)))
    for n, (lanes_m, lanes_n) in product(_SIZES, _TEAMS):
        cases.append(_pinned("tba", size, n, VARIANT="lanes", LANES_M=lanes_m, LANES_N=lanes_n, WARPS=1))
    return cases


def readonly(size: Size) -> list[Case]:
    """Masliah et al.'s kernel through the read-only cache, a thread per entry, beside the one that is chosen."""
    cases = []
    for n in range(2, 33):
        cases.append(_pinned("readonly", size, n))
        cases.append(_pinned("readonly", size, n, **_per_entry(n, max(1, 128 // (n * n)))))
    return cases


def kernels(size: Size) -> list[Case]:
    """Figures 3.12 to 3.15 of Dong: his best tiles and ours for updates of rank 8, 16 and 32, beside cuBLAS."""
    cases = []
    for rank, n in product(_RANKS, _WIDE):
        cases.append(_pinned("kernels", size, n, rank))
        depth: dict[str, Any] = {"BLK_K": min(16, rank), "PER_BLOCK": 1, "STAGES": 2, "OUT": "direct"}
        for rows, columns, blk_m, blk_n in _TABLE.values():
            dims = {"DIM_X": columns, "DIM_Y": rows, "BLK_M": blk_m, "BLK_N": blk_n}
            cases.append(_pinned("kernels", size, n, rank, VARIANT="block", **dims, **depth, BLOCKS_PER_SM=1))
        for warps_m, warps_n, blk_m, blk_n in _TENSOR.values():
            dims = {"WARPS_M": warps_m, "WARPS_N": warps_n, "BLK_M": blk_m, "BLK_N": blk_n, "KSTEP": 8}
            cases.append(_pinned("kernels", size, n, rank, VARIANT="tensor", **dims, **depth, BLOCKS_PER_SM=1))
    return cases


def label(pins: dict[str, Any]) -> str:
    """The name of a pinned kernel in pictures and tables."""
    tile = f"{pins['BLK_M']} x {pins['BLK_N']}"
    known = {(rows, columns): number for number, (*_, rows, columns) in _TABLE.items()}
    number = known.get((pins["BLK_M"], pins["BLK_N"])) if pins["VARIANT"] == "block" else None
    return f"{pins['VARIANT']} {tile}" + (f" (his {number})" if number else "")


def streamed(size: Size) -> list[Case]:
    """Figures 3.15 and 3.16 of Dong: 500 products, batched and one by one in streams, inner size 32, 64, 128."""
    most = 4 * size.elements["float64"]  # of an operand; where memory is small, fewer matrices
    return [
        Case("streamed", "float64", n, n, min(_MATRICES, max(1, most // (n * max(n, inner)))), temperature="hot",
             operation="gemm", inner=inner)
        for inner, n in product((32, 64, 128), _STREAMED)
    ]  # fmt: skip
