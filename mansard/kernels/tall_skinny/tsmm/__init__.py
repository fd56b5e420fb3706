"""W = alpha A C + beta W for tall, skinny A (K x M) and small C (M x N): new combinations of block vectors."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family(
    "tsmm", spec, space, work, emit, defaults,
    likely=space.likely, swept=defaults.swept, is_short=work.is_short,
)  # fmt: skip
