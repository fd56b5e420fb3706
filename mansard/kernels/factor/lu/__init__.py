"""LU factorizations with partial pivoting, and what follows from them, for batches of small matrices."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
