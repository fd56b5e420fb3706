"""Which array library an argument belongs to: NumPy, CuPy, PyTorch, or JAX through DLPack.

Each library is one `Kind`, in a module of its name. A kind describes an array (`View`: address, shape, strides, dtype,
device), allocates results of its own type, names the caller's current stream, and calls the library's own routines.
Libraries are looked up in `sys.modules`: whoever hands us a tensor has imported them already.

Matrices that are not in one memory (rows over processes, chunks of Dask) have a kind, too, that answers whole calls:
`adopt` makes it known. Its module lies above this one and is loaded by name, with the first such operand.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from . import jax as array_jax
from . import numpy as array_numpy
from . import torch as array_torch
from .cupy import CupyKind
from .jax import JaxKind
from .numpy import NumpyKind
from .torch import TorchKind
from .types import Array, Kind
from .view import View, dense_strides, extent, reach

__all__ = [
    "KINDS",
    "View",
    "adopt",
    "common_kind",
    "dense_strides",
    "extent",
    "imported",
    "kind_of",
    "known_kind",
    "library_of",
    "prevailing",
    "reach",
    "same_device",
]

# Any: not every kind has all of `Kind`.
KINDS: dict[str, Any] = {"numpy": NumpyKind()}
_MAKERS = {"cupy": CupyKind, "torch": TorchKind, "jax": JaxKind}
_REFUSALS = {"numpy": array_numpy.refusal, "torch": array_torch.refusal, "jax": array_jax.refusal}
_BY_TYPE: dict[type, Any] = {np.ndarray: KINDS["numpy"]}  # types whose arrays are taken
_ADOPTERS = {("dask.array", "Array"): "mansard.distributed.dask"}  # type -> the module that adopts it


def _kind(name: str) -> Kind:
    if name not in KINDS:
        KINDS.setdefault(name, _MAKERS[name]())  # of two threads' kinds, the first stays: kinds are told apart by `is`
    return KINDS[name]  # type: ignore[no-any-return]


def imported(package: str) -> Kind:
    """The kind of a library, by the name it is imported by; here alone libraries are imported."""
    import_module(package)
    return _kind(package)


def known_kind(array: Array) -> Kind | None:
    """The kind of an array whose type was seen before; None for types still to be looked at, and for JAX."""
    kind: Kind | None = _BY_TYPE.get(type(array))
    return None if kind is None or kind.immutable else kind


def kind_of(array: Array, argument: str) -> Kind:
    """The kind of one argument. A TypeError names the argument if it is no array we know, or of a type that means more
    than its numbers (masks, units) or less (a tracer without values)."""
    kind: Kind | None = _BY_TYPE.get(type(array))
    if kind is not None:
        return kind
    root = library_of(type(array))
    if root is None and (found := _adopted(type(array))) is not None:
        return found
    if root is None:
        raise TypeError(
            f"{argument} is a {type(array).__module__}.{type(array).__name__}; "
            "Mansard takes NumPy, CuPy, PyTorch and JAX arrays"
        )
    refused = _REFUSALS[root](type(array), argument) if root in _REFUSALS else None
    if refused is not None:
        raise refused
    kind = _kind(root)
    if root != "numpy" or type(array) in array_numpy.PLAIN_SUBCLASSES:  # results of others' functions may be of a class
        _BY_TYPE[type(array)] = kind
    return kind


def adopt(of: type, kind: Any) -> None:
    """Make the kind of a type known that answers calls itself."""
    _BY_TYPE[of] = kind


def _adopted(of: type) -> Kind | None:
    """The kind of a type that a module above adopts when it is loaded; None if no module does."""
    for (package, name), home in _ADOPTERS.items():
        if of is getattr(sys.modules.get(package), name, None):
            import_module(home)
    return _BY_TYPE.get(of)


def library_of(kind: type) -> str | None:
    """The array library whose array type is a base of this one."""
    if issubclass(kind, np.ndarray):
        return "numpy"
    for name, path in (("torch", "Tensor"), ("cupy", "ndarray"), ("jax", "Array")):
        base = getattr(sys.modules.get(name), path, None)
        if base is not None and issubclass(kind, base):
            return name
    return "jax" if array_jax.is_tracer(kind) else None


def common_kind(arrays: Sequence[tuple[str, Array]]) -> Kind:
    """The one kind of all arguments; mixing kinds is a TypeError that says which."""
    first_name, first = arrays[0]
    kind = kind_of(first, first_name)
    for name, array in arrays[1:]:
        other = kind_of(array, name)
        if other is not kind:
            kind = prevailing(
                kind, other, f"{first_name} is a {kind.name} array and {name} a {other.name} array: convert one of them"
            )
    return kind


def prevailing(kind: Kind, other: Kind, text: str) -> Kind:
    """The array library of the two that computes calls by itself; a TypeError with `text` if neither does."""
    found = [one for one in (kind, other) if one.answer is not None]
    if len(found) != 1:
        raise TypeError(text)
    return found[0]


def same_device(views: Sequence[tuple[str, View]]) -> tuple[str, int]:
    """The one device of all arguments; a ValueError says which argument lies elsewhere."""
    first_name, first = views[0]
    for name, view in views[1:]:
        if view.device != first.device:
            here, there = ":".join(map(str, first.device)), ":".join(map(str, view.device))
            raise ValueError(f"{first_name} is on {here} and {name} on {there}: move one of them")
    return first.device
