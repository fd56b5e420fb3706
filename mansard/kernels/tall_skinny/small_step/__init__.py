"""One step of an orthogonalisation, planned where the Gram matrix lies: what to multiply a block with next."""

from . import defaults, emit, space, spec, work

__all__ = ["defaults", "emit", "space", "spec", "work"]
