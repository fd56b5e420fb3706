"""Norms of arrays along axes, with NumPy's conventions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....arrays import kinds as arrays
from ....arrays.types import Array, Kind
from ....plan.problem import DTYPES
from ... import stacks
from ...batched.interleaved import Interleaved
from ...ragged import Ragged
from ..face import scalar
from .derived import SPECTRAL, matrix_norm, vector_norm


def is_batch(x: Any) -> bool:
    """Whether an argument is a batch of matrices that is no array. An empty list is NumPy's empty vector."""
    return (stacks.is_list(x) and len(x) > 0) or isinstance(x, Ragged | Interleaved)


def norm_of_array(x: Array, order: Any, axis: Any, keepdims: bool, backend: str | None) -> Array:
    """The norms of the vectors or matrices along `axis`."""
    kind = arrays.kind_of(x, "x")
    if kind.immutable:
        found = norm_of_array(kind.unwrap(x, "x"), order, axis, keepdims, backend)
        on_host = isinstance(found, np.generic | np.ndarray)
        return kind.wrap(np.require(found, requirements=["C", "W"]) if on_host else found)
    x = _checked(kind, x)
    axes = _axes(len(x.shape), order, axis)
    if len(axes) == 2 and not isinstance(axis, int):
        return _of_matrices(kind, x, order, axes, keepdims, backend)
    if axes == ():
        return scalar(vector_norm(kind, x, None, None, keepdims))
    if len(axes) > 1:
        raise ValueError("Improper number of dimensions to norm.")
    if isinstance(order, str):
        raise ValueError(f"ord={order!r} is a norm of matrices: x has vectors along one axis")
    return scalar(vector_norm(kind, x, order, axes[0], keepdims))


def _checked(kind: Kind, x: Array) -> Array:
    """The array, integers of NumPy as float64; gradients and dtypes that no norm is known for are refused."""
    if not kind.promotes:
        dtype = kind.view(x, "x").dtype
        if dtype not in DTYPES:
            raise TypeError(f"x has dtype {dtype}; supported are {', '.join(DTYPES)}: convert it first")
        return x
    return x if x.dtype.kind in "fc" else x.astype("float64")


def _axes(count: int, order: Any, axis: Any) -> tuple[int, ...]:
    """One axis for vectors, two for matrices, none where all entries are one vector."""
    if axis is None:
        return () if order is None or (count == 1 and order == 2) else tuple(range(count))
    if not isinstance(axis, tuple):
        try:
            axis = (int(axis),)
        except Exception as error:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from error
    for one in axis:
        if not -count <= one < count:
            raise np.exceptions.AxisError(one, count)
    return tuple(one % count for one in axis)


def _of_matrices(
    kind: Kind, x: Array, order: Any, axes: tuple[int, ...], keepdims: bool, backend: str | None
) -> Array:  # fmt: skip
    if axes[0] == axes[1]:
        raise ValueError("Duplicate axes given.")
    if order not in (None, "fro", "f", 1, -1, np.inf, -np.inf, *SPECTRAL):
        raise ValueError("Invalid norm order for matrices.")
    if order in SPECTRAL and kind.promotes and x.dtype.name not in DTYPES:
        raise TypeError(f"x has dtype {x.dtype}; supported are {', '.join(DTYPES)}: convert it first")
    found = matrix_norm(kind, kind.module.moveaxis(x, axes, (-2, -1)), order, backend)
    if keepdims:
        found = found.reshape([1 if i in axes else size for i, size in enumerate(x.shape)])
    return scalar(found)
