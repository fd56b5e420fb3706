"""Stage 3 of a call: how. One folder per kernel family, always with the same file names.

`spec` says which problems a family accepts and defines the reference; `space` its configurations; `work` bytes,
flops and resources; `emit` source text and launch geometry; `defaults` the rules before anything is measured.
`family.py` types what each of them offers. Families are pure: they compile and run nothing.
"""

from __future__ import annotations

from .batched import gemm, gemv, ragged_gemm, trmm, trsm
from .factor import back_transform, bidiagonal, cholesky, divide, jacobi, lu, qr, ragged_factor, sweeps, tridiagonal
from .family import Family
from .sparse import powers, spmv
from .tall_skinny import gram, matmul_gram, sketch, small_step, tsm2r, tsmm

FAMILIES: tuple[Family, ...] = (
    gram.FAMILY, tsmm.FAMILY, tsm2r.FAMILY, matmul_gram.FAMILY, sketch.FAMILY, small_step.FAMILY, gemm.FAMILY,
    gemv.FAMILY, trsm.FAMILY, trmm.FAMILY, ragged_gemm.FAMILY, cholesky.FAMILY, lu.FAMILY, qr.FAMILY,
    ragged_factor.FAMILY, jacobi.FAMILY, tridiagonal.FAMILY, bidiagonal.FAMILY, sweeps.FAMILY, divide.FAMILY,
    back_transform.FAMILY, spmv.FAMILY, powers.FAMILY,
)  # fmt: skip


def family_of(operation: str) -> Family:
    """The family that answers `operation`."""
    for family in FAMILIES:
        if operation == family.name:
            return family
    raise KeyError(f"no family answers {operation!r}; there are: {', '.join(names())}")


def names() -> tuple[str, ...]:
    return tuple(family.name for family in FAMILIES)
