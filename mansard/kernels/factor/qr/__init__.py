"""A = Q R for batches of small matrices: R and reflections, Q, least squares."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("qr", spec, space, work, emit, defaults, trusts_rules=defaults.TRUSTED, remarks=work.remarks)
