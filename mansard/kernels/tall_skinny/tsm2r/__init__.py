"""C = alpha A B + beta C for large A (M x K) and skinny B (K x N): a matrix applied to a block of vectors."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("tsm2r", spec, space, work, emit, defaults, remarks=work.remarks)
