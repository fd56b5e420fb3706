"""op(A) X = alpha B or X op(A) = alpha B for batches of small triangular matrices."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family(
    "trsm", spec, space, work, emit, defaults, alike=spec.ALIKE, likely=space.likely, swept=defaults.swept,
    remarks=work.remarks,
)  # fmt: skip
