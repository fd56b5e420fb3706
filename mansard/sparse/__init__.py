"""Sparse matrices: formats for CPUs and GPUs, products with one vector and several, and what is built on them.

Modules below are loaded when they are first used: SciPy's sparse matrices take a while to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..operations.sparse.matrix import Matrix, matrix
    from ..operations.sparse.powers.order import levels
    from ..tune.sparse import tune
    from . import io, linalg, matrices

__all__ = ["Matrix", "io", "levels", "linalg", "matrices", "matrix", "tune"]

_MODULES = {
    "io": ".io", "levels": "..operations.sparse.powers.order.levels", "linalg": ".linalg", "matrices": ".matrices",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name], __name__)
    if name in ("Matrix", "matrix"):
        return getattr(import_module("..operations.sparse.matrix", __name__), name)
    if name == "tune":
        return import_module("..tune.sparse", __name__).tune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
