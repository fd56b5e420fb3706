"""W = alpha A C + beta D and its Gram matrix G = W^H W in one pass over the tall A."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
