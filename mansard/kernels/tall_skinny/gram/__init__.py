"""C = alpha A^H B + beta C for tall, skinny A (K x M) and B (K x N): every product of two block vectors."""

from ...family import Family
from . import defaults, emit, space, spec, work

__all__ = ["FAMILY", "defaults", "emit", "space", "spec", "work"]

FAMILY = Family("gram", spec, space, work, emit, defaults, likely=space.likely, swept=defaults.swept)
