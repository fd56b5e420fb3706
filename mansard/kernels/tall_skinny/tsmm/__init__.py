"""W = alpha A C + beta W for tall, skinny A (K x M) and small C (M x N): new combinations of block vectors."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
