"""y = alpha A x + beta y for batches of matrices: as fast as the matrices can be read."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
