"""y = alpha A x + beta y for batches of matrices: as fast as the matrices can be read."""

from ...family import Family
from . import defaults, emit, space, spec, work
from .space_cpu import Runtime

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("gemv", spec, space, work, emit, defaults, remarks=work.remarks, runtime=Runtime())
