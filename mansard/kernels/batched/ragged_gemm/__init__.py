"""C_i = alpha A_i B_i + beta C_i for batches of matrices that differ in size."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("ragged_gemm", spec, space, work, emit, defaults, trusts_rules=True)
