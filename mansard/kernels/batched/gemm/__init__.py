"""C = alpha A B + beta C for batches of small matrices: stacks of products, each far too small for a GPU."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
