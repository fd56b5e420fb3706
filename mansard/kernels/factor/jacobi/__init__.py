"""Eigenvalues and singular values, with vectors or without, of batches of tiny matrices by Jacobi rotations."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("jacobi", spec, space, work, emit, defaults, trusts_rules=defaults.TRUSTED)
