"""LU factorizations with partial pivoting, and what follows from them, for batches of small matrices."""

from ...family import Family
from . import defaults, emit, space, spec, work
from .runtime import Runtime

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family(
    "lu", spec, space, work, emit, defaults, trusts_rules=defaults.TRUSTED, remarks=work.remarks,
    runtime=Runtime(),
)  # fmt: skip
