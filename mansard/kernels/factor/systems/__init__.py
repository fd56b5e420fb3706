"""Tiny linear systems with any number of right-hand sides, by one launch; squared residuals of least squares."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("systems", spec, space, work, emit, defaults, trusts_rules=True)
