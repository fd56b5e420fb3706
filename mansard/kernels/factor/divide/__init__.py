"""Eigenvalues of tridiagonal and singular values of bidiagonal matrices, one block per matrix: for small batches."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("divide", spec, space, work, emit, defaults, trusts_rules=True)
