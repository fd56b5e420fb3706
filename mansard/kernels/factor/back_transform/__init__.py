"""Eigenvectors and singular vectors from the reflectors of a reduction and the rotations of an iteration."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("back_transform", spec, space, work, emit, defaults, trusts_rules=True)
