"""Y = alpha A X + beta Y with a sparse matrix A: as fast as the matrix can be read."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("spmv", spec, space, work, emit, defaults, trusts_rules=defaults.TRUSTED, remarks=work.remarks)
