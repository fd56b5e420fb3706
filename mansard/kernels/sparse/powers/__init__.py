"""Powers of a sparse matrix times vectors: v_0 .. v_p of a recurrence, reading the matrix less often than p times."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("powers", spec, space, work, emit, defaults, trusts_rules=defaults.TRUSTED, remarks=work.remarks)
