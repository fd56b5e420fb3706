"""Checks of the vectors and matrices that solvers are given."""

from __future__ import annotations

from typing import Any

from ...arrays import kinds as arrays


def check_vector(vector: Any, name: str) -> None:
    """Refuse vectors of libraries that the solvers do not know, and entries that are no numbers."""
    kind = arrays.kind_of(vector, name)
    if kind.immutable or not kind.has_numpy_methods:
        raise TypeError(f"{name} is a {kind.name} array: pass a NumPy or CuPy array")
    if vector.dtype.kind not in "biufc":
        raise TypeError(f"{name} has dtype {vector.dtype}, whose entries are no plain numbers: convert it first")


def check_operator(operator: Any, name: str) -> None:
    """Refuse dense arrays of libraries that the solvers do not know. Other operators only need `@`."""
    if arrays.library_of(type(operator)) is not None:
        check_vector(operator, name)
