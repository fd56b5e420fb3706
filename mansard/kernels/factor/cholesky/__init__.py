"""Cholesky factors of batches of small Hermitian matrices, and solutions by them."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
