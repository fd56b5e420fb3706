"""Mansard: linear algebra for the shapes that vendor libraries neglect, at the speed the hardware allows."""

from .api.matmul import matmul
from .api.planning import plan, tune
from .api.tall_skinny import gram
from .plan.pin import pin

__version__ = "0.1.0"
__all__ = ["__version__", "gram", "matmul", "pin", "plan", "tune"]
