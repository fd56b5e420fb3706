"""One step of an orthogonalisation, planned where the Gram matrix lies: what to multiply a block with next."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("small_step", spec, space, work, emit, defaults, trusts_rules=True)
