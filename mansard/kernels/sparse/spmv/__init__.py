"""Y = alpha A X + beta Y with a sparse matrix A: as fast as the matrix can be read."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
