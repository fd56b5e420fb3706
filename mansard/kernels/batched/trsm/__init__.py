"""op(A) X = alpha B or X op(A) = alpha B for batches of small triangular matrices."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
