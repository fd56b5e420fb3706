"""C = alpha A B + beta C for large A (M x K) and skinny B (K x N): a matrix applied to a block of vectors."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
