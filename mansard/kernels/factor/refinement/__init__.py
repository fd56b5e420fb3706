"""Iterative refinement of solutions by factors in single precision: rounding, corrections, and who has converged."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("refinement", spec, space, work, emit, defaults, trusts_rules=True)
