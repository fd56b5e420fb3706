"""The vector passes of an iteration of a Krylov solver, whose scalars stay where the vectors are."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("krylov", spec, space, work, emit, defaults, trusts_rules=True)
