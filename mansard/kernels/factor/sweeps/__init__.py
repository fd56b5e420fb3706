"""Eigenvalues of tridiagonal and singular values of bidiagonal matrices, and the rotations that lead to them."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("sweeps", spec, space, work, emit, defaults, trusts_rules=True)
