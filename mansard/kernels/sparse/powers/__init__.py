"""Powers of a sparse matrix times vectors: v_0 .. v_p of a recurrence, reading the matrix less often than p times."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
