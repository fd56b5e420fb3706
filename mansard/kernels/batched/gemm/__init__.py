"""C = alpha A B + beta C for batches of small matrices: stacks of products, each far too small for a GPU."""

from ...family import Family
from . import defaults, emit, space, spec, work
from .runtime import Runtime

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family(
    "gemm", spec, space, work, emit, defaults, swept=defaults.swept, remarks=work.remarks,
    runtime=Runtime(),
)  # fmt: skip
