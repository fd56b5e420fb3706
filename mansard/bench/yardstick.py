"""Bandwidth that a row's percentages refer to, chosen by the share of reads in its traffic."""

from __future__ import annotations

from typing import Any

from ..machine import roofline
from ..machine.roofline import Work
from .batched.operations import SOLVES
from .factor.operations import FACTORS
from .sparse.operations import SPARSE

READ, COPY, MIXED = "read", "copy", "read and copy"
READ_MOSTLY = 0.8  # share of reads from which a factorization or a sparse product is measured by the read bandwidth
_ALL, _HALF = 0.99, 0.51  # of tall products, whose bandwidth is mixed by the share


def name(operation: str, work: Work) -> str:
    """A copy's bandwidth for products, whose results are as large as their operands; the read bandwidth where nearly
    all traffic is read (gemv, systems with one right-hand side, determinants, sparse products); otherwise both, in
    proportion to what is written."""
    share = work.read / max(1, work.bytes)
    if operation in ("gemm", "ragged"):
        return COPY
    if operation == "gemv":
        return READ
    if operation in (*FACTORS, *SPARSE) and share >= READ_MOSTLY:
        return READ
    if operation in FACTORS:
        return COPY
    if operation in SOLVES or _HALF < share < _ALL:
        return MIXED
    return READ if share >= _ALL else COPY


def bandwidth(operation: str, work: Work, ceilings: Any) -> float:
    """Bytes per second that percentages, and the bound P_max of batches, are of."""
    chosen = name(operation, work)
    if chosen == MIXED:
        return float(roofline.bandwidth(work, ceilings))
    return float(ceilings.read_bandwidth if chosen == READ else ceilings.copy_bandwidth)
