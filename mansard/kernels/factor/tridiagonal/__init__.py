"""Q^H A Q = T: batches of small Hermitian matrices reduced to real tridiagonal form."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("tridiagonal", spec, space, work, emit, defaults, trusts_rules=True)
