"""Triangles of square matrices of PyTorch and CuPy by masks, which are made on the device of the matrices."""

from __future__ import annotations

from typing import Any


def mask(module: Any, array: Any, lower: bool, diagonal: bool = True) -> Any:
    """The entries of a triangle, with or without the diagonal, as an array of flags beside `array`."""
    order = array.shape[-1]
    if hasattr(array, "get"):  # of CuPy, on its current device
        found = module.ones((order, order), dtype=bool)
    else:
        found = module.ones((order, order), dtype=module.bool, device=array.device)
    return module.tril(found, 0 if diagonal else -1) if lower else module.triu(found, 0 if diagonal else 1)


def put(module: Any, array: Any, values: Any, lower: bool) -> None:
    """Write one triangle of `values`, with the diagonal, to that of `array`."""
    array[...] = module.where(mask(module, array, lower), values, array)


def mirror(module: Any, array: Any, lower: bool, conjugated: bool) -> None:
    """Make one triangle the transpose, or the adjoint, of the other one, which is `lower` or the upper one."""
    turned = array.swapaxes(-1, -2)
    turned = turned.conj() if conjugated else turned
    array[...] = module.where(mask(module, array, lower), array, turned)
