"""Set of cases for `--energy`: factorizations beside the vendor's."""

from __future__ import annotations

from .cases import Case, Sets, Size
from .factor.cases import squares

_SIZES = (32, 16, 64)  # in the order in which they are measured: what a time limit leaves out comes last


def greenup(size: Size) -> list[Case]:
    """LU, QR and Cholesky factors of 16 x 16, 32 x 32 and 64 x 64 matrices, for joules beside the vendor's."""
    return [case for n in _SIZES for case in squares("greenup", size, ("lu", "qr", "cholesky"), (n,), ("float64",))]


SETS: dict[str, Sets] = {"factor": {"greenup": greenup}}
