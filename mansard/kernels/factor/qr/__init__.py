"""A = Q R for batches of small matrices: R and reflections, Q, least squares."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
