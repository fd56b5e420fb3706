"""Y = S A for a tall A and a random sign matrix S of few rows; on GPUs with A^H A from the same pass."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("sketch", spec, space, work, emit, defaults, trusts_rules=True)
