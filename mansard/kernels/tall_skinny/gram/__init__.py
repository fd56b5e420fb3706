"""C = alpha A^H B + beta C for tall, skinny A (K x M) and B (K x N): every product of two block vectors."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
