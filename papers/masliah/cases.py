"""The experiments of Masliah et al., High-performance matrix-matrix multiplications of very small matrices: several
matrices per block (figure 6b), and the kernel through the read-only cache."""

from __future__ import annotations

from itertools import product
from typing import Any

from mansard.bench.cases import Case, Size, gpu_only

from ..batches import pinned

_SIZES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)
_PER_BLOCK = (1, 2, 4, 8, 16, 32, 64)
_TEAMS = ((8, 4), (4, 4), (4, 2), (2, 2), (2, 1), (1, 1))  # lanes per matrix


def _per_entry(n: int, matrices: int) -> dict[str, Any]:
    """The kernel through the read-only cache with a thread per entry; registers decide how many blocks fit."""
    return {"VARIANT": "readonly", "DIM_X": n, "DIM_Y": n, "PER_BLOCK": matrices, "BLOCKS_PER_SM": 1}


@gpu_only
def tba(size: Size) -> list[Case]:
    """Figure 6b of Masliah et al.: matrices per block, kernels `readonly` (a thread per entry) and `lanes`."""
    cases = []
    for n, matrices in product(_SIZES, _PER_BLOCK):
        if n * n * matrices <= 1024:
            cases.append(pinned("tba", size, n, **_per_entry(n, matrices)))
    for n, (lanes_m, lanes_n) in product(_SIZES, _TEAMS):
        cases.append(pinned("tba", size, n, VARIANT="lanes", LANES_M=lanes_m, LANES_N=lanes_n, WARPS=1))
    return cases


@gpu_only
def readonly(size: Size) -> list[Case]:
    """Masliah et al.'s kernel through the read-only cache, a thread per entry, beside the one that is chosen."""
    cases = []
    for n in range(2, 33):
        cases.append(pinned("readonly", size, n))
        cases.append(pinned("readonly", size, n, **_per_entry(n, max(1, 128 // (n * n)))))
    return cases
