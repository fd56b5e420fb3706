"""Sparse matrices: formats for CPUs and GPUs, products with one vector and several, and what is built on them.

Modules below are loaded when they are first used: scipy's sparse matrices take a while to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .matrix import Matrix, matrix

__all__ = ["Matrix", "io", "levels", "linalg", "matrices", "matrix", "tune"]

_MODULES = {"io": ".io", "levels": "..operations.sparse.levels", "linalg": ".linalg", "matrices": ".matrices"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name], __name__)
    if name == "tune":
        return import_module(".tuning", __name__).tune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
