"""Qu^H A Qv = B: batches of small square matrices reduced to real upper bidiagonal form."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("bidiagonal", spec, space, work, emit, defaults, trusts_rules=True)
