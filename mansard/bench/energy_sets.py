"""Set of cases for `--energy`: factorizations beside the vendor's."""

from __future__ import annotations

from .cases import Case, Sets, Size
from .factor.cases import squares

_SIZES = (16, 32, 64)


def greenup(size: Size) -> list[Case]:
    """LU, QR and Cholesky factors of 16 x 16, 32 x 32 and 64 x 64 matrices, for joules beside the vendor's."""
    return squares("greenup", size, ("lu", "qr", "cholesky"), _SIZES, ("float64",))


SETS: dict[str, Sets] = {"factor": {"greenup": greenup}}
