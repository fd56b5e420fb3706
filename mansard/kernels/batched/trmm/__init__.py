"""alpha op(A) B or alpha B op(A) for batches of small triangular matrices A."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family(
    "trmm", spec, space, work, emit, defaults, trusts_rules=True, alike=spec.ALIKE, swept=defaults.swept,
    remarks=work.remarks,
)  # fmt: skip
