"""The experiments of Dong's dissertation on batched linear algebra on GPUs: kernels for updates of low rank (figures
3.12 to 3.15), products one by one in streams (3.15, 3.16), factorizations step by step (4.1 to 4.3),
and their power (4.13)."""

from __future__ import annotations

from itertools import product
from typing import Any

from mansard.bench.cases import Case, Size, gpu_only
from mansard.bench.factor.cases import squares
from mansard.operations.factor.blocked import HOW

from ..batches import pinned

_RANKS = (8, 16, 32)
_WIDE = (32, 48, 64, 96, 128, 160, 192, 224, 256)
# rows and columns of threads, and of a tile: Dong's table 3.2; their columns are our rows
_TABLE = {93: (16, 8, 32, 24), 107: (16, 16, 32, 48), 111: (16, 16, 48, 32), 116: (16, 16, 64, 32)}
_TENSOR = {"64 x 64": (2, 2, 64, 64), "128 x 64": (4, 2, 128, 64)}  # warps, and a tile
_STREAMED, _MATRICES = (32, 64, 128, 192, 256, 384, 512), 500
_WIDEST, _POWERED = 512, 4000
_COMPARED = (32, 64, 128, 256, 512)
_STEPS, _MATRICES = (32, 64, 96, 128, 192, 256, 320, 384, 448, 512), 2000


@gpu_only
def kernels(size: Size) -> list[Case]:
    """Figures 3.12 to 3.15 of Dong: his best tiles and ours for updates of rank 8, 16 and 32, beside cuBLAS."""
    cases = []
    for rank, n in product(_RANKS, _WIDE):
        cases.append(pinned("kernels", size, n, rank))
        depth: dict[str, Any] = {"BLK_K": min(16, rank), "PER_BLOCK": 1, "STAGES": 2, "OUT": "direct"}
        for rows, columns, blk_m, blk_n in _TABLE.values():
            dims = {"DIM_X": columns, "DIM_Y": rows, "BLK_M": blk_m, "BLK_N": blk_n}
            cases.append(pinned("kernels", size, n, rank, VARIANT="block", **dims, **depth, BLOCKS_PER_SM=1))
        for warps_m, warps_n, blk_m, blk_n in _TENSOR.values():
            dims = {"WARPS_M": warps_m, "WARPS_N": warps_n, "BLK_M": blk_m, "BLK_N": blk_n, "KSTEP": 8}
            cases.append(pinned("kernels", size, n, rank, VARIANT="tensor", **dims, **depth, BLOCKS_PER_SM=1))
    return cases


def label(pins: dict[str, Any]) -> str:
    """The name of a pinned kernel in pictures and tables."""
    tile = f"{pins['BLK_M']} x {pins['BLK_N']}"
    known = {(rows, columns): number for number, (*_, rows, columns) in _TABLE.items()}
    number = known.get((pins["BLK_M"], pins["BLK_N"])) if pins["VARIANT"] == "block" else None
    return f"{pins['VARIANT']} {tile}" + (f" (his {number})" if number else "")


@gpu_only
def streamed(size: Size) -> list[Case]:
    """Figures 3.15 and 3.16 of Dong: 500 products, batched and one by one in streams, inner size 32, 64, 128."""
    most = 4 * size.elements["float64"]  # of an operand; where memory is small, fewer matrices
    return [
        Case("streamed", "float64", n, n, min(_MATRICES, max(1, most // (n * max(n, inner)))), temperature="hot",
             operation="gemm", inner=inner)
        for inner, n in product((32, 64, 128), _STREAMED)
    ]  # fmt: skip


def power(size: Size) -> list[Case]:
    """Figure 4.13 of Dong: QR of 4,000 matrices of 512 x 512 (fewer where memory is small), for `--energy`."""
    matrices = min(_POWERED, max(1, 4 * size.elements["float64"] // _WIDEST**2))
    return [Case("power", "float64", _WIDEST, 1, matrices, temperature="hot", operation="qr")]


def devices(size: Size) -> list[Case]:
    """Figures 4.10 to 4.12 of Dong: three factorizations on a GPU and on a CPU, for `--energy` as well."""
    return squares("devices", size, ("qr", "lu", "cholesky"), _COMPARED, ("float64",))


def steps(size: Size) -> list[Case]:
    """Figures 4.1 to 4.3 of Dong: 2,000 matrices by his steps from one column at a time to nested panels."""
    cases = []
    for operation, n, form in product(("lu", "cholesky", "qr"), _STEPS, ("", *HOW)):
        matrices = min(_MATRICES, max(1, 4 * size.elements["float64"] // (n * n)))
        # otherwise the host is what is measured; products of reflections are not captured
        # (operations/batched/library.py), nor is the library's routine, to which panels of so many rows are handed over
        handed = operation == "qr" or (operation, form, n) == ("lu", "kernel", 512)
        captured = form and size.backend == "cuda" and not handed
        mode = "graph" if captured else "device"
        cases.append(Case("steps", "float64", n, 1, matrices, mode=mode, temperature="hot", operation=operation,
                          form=form, peers=not form))  # fmt: skip
    return cases
