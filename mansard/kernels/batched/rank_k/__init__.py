"""C = alpha A A' + beta C and alpha (A B' + B A') + beta C for batches of small matrices: one triangle is computed."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family(
    "rank_k", spec, space, work, emit, defaults,
    trusts_rules=True, swept=defaults.swept, remarks=work.remarks,
)  # fmt: skip
