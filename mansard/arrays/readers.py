"""Array libraries as the native launcher is told about them: which types it reads, and how.

A type is introduced with the first array that Python has answered a call for. Types that the launcher must not read
(subclasses with a meaning of their own, JAX's, lists) are introduced as such, so that it asks only once.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..native import Module
from . import kinds
from .types import Kind

LIBRARIES = {"numpy": 0, "torch": 1, "cupy": 2}  # as `arrays.hpp` numbers them
_PYTHON = -1  # Python looks at arrays of this type


def begin(module: Module) -> None:
    """Tell the launcher about dtypes and NumPy's arrays, unless these do not lie where its interface says."""
    module.set_dtypes(*map(np.dtype, ("float32", "float64", "complex64", "complex128", "int32")))
    module.know(np.ndarray, LIBRARIES["numpy"])
    for array in (np.zeros((2, 3), np.float32)[1:], np.zeros(4, np.complex128)[::-2], np.zeros((5, 0)).T):
        found, data = module.describe(array), array.__array_interface__["data"]
        if found is None or (*found[:3], found[5]) != (data[0], array.shape, array.strides, data[1]):
            raise ImportError("NumPy's arrays lie otherwise than its binary interface says")


def number_of(kind: Kind) -> int | None:
    """The launcher's number of an array library; None: it reads none of its arrays."""
    return LIBRARIES.get(kind.package)


def introduce(module: Module, array: Any) -> None:
    """Tell the launcher about the type of an object that Python has answered a call for."""
    kind = kinds.known_kind(array)
    package = "" if kind is None or kind.answer is not None else kind.package
    readable = package in LIBRARIES
    if package == "torch":
        readable = _is_torch_ready(module)
    elif package == "numpy":
        readable = isinstance(array, np.ndarray)
    module.know(type(array), LIBRARIES[package] if readable else _PYTHON)


def _is_torch_ready(module: Module) -> bool:
    """Whether PyTorch describes tensors in C (2.10 and newer), and the launcher can ask it."""
    torch: Any = sys.modules["torch"]
    names = ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__")
    found = next((one for name in names if (one := getattr(torch.Tensor, name, None)) is not None), None)
    if found is None:
        return False
    return module.set_torch(
        found, torch.is_grad_enabled, torch._C._get_tracing_state, vars(torch.autograd.forward_ad)
    )  # fmt: skip
