"""Stage 3 of a call: how. One folder per kernel family, always with the same file names.

`spec` says which problems a family accepts and defines the reference; `space` its configurations; `work` bytes,
flops and resources; `emit` source text and launch geometry. Families are pure: they compile and run nothing.
"""

from __future__ import annotations

from types import ModuleType

from .batched import gemm, gemv, trsm
from .factor import cholesky, lu, qr
from .sparse import powers, spmv
from .tall_skinny import gram, matmul_gram, tsm2r, tsmm

FAMILIES: tuple[ModuleType, ...] = (gram, tsmm, tsm2r, matmul_gram, gemm, gemv, trsm, cholesky, lu, qr, spmv, powers)


def family_of(operation: str) -> ModuleType:
    """The family that answers `operation`."""
    for family in FAMILIES:
        if operation == family.__name__.rpartition(".")[2]:
            return family
    raise KeyError(f"no family answers {operation!r}; there are: {', '.join(names())}")


def names() -> tuple[str, ...]:
    return tuple(family.__name__.rpartition(".")[2] for family in FAMILIES)
