"""Gradients with respect to tiny matrices of inverses, Cholesky factors and solutions, by one launch."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("gradients", spec, space, work, emit, defaults, trusts_rules=True)
