"""Factorizations and triangular solves of batches of matrices that differ in size, on CPUs; copies between such
batches and padded stacks, on GPUs."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("ragged_factor", spec, space, work, emit, defaults, trusts_rules=True)
