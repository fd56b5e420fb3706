"""C_i = alpha A_i B_i + beta C_i for batches of matrices that differ in size."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
