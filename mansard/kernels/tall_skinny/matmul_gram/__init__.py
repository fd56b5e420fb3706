"""W = alpha A C + beta D and its Gram matrix G = W^H W in one pass over the tall A."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("matmul_gram", spec, space, work, emit, defaults)
