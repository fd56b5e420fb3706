"""Faces whose modules are loaded when a name of theirs is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import isfunction


def exporting(face: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a face: `homes` maps its modules to the names that each provides. Functions become
    transformable."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        from .transformable import transformable

        value = getattr(import_module(f".{home_of[name]}", face), name)
        if isfunction(value):
            value = transformable(value, face)
        return vars(sys.modules[face]).setdefault(name, value)  # of two threads' functions, the first stays

    return find
