"""Cholesky factors of batches of small Hermitian matrices, and solutions by them."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("cholesky", spec, space, work, emit, defaults, trusts_rules=defaults.TRUSTED, remarks=work.remarks)
