"""Vector updates in place, one pass each: NumPy's expressions write and read a temporary array for every operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import blas

from ...arrays import kinds as arrays
from ...operations.sparse.storage import host

_AXPY = {"float32": blas.saxpy, "float64": blas.daxpy, "complex64": blas.caxpy, "complex128": blas.zaxpy}
_PIECE = 1 << 14  # entries that are updated at a time: their product stays in the first-level cache


def add_scaled(y: Any, a: Any, x: Any) -> Any:
    """y += a x, in place; `a` is a number, or for vectors side by side (n, k) one for each. Returns y."""
    if not isinstance(y, np.ndarray):
        y += y.dtype.type(a) * x if np.ndim(a) == 0 else _row(y, a) * x
        return y
    if y.ndim == 1 and y.dtype == x.dtype and y.dtype.name in _AXPY and y.flags.c_contiguous and x.flags.c_contiguous:
        found = _AXPY[y.dtype.name](x, y, a=a) if y.size else y
        if found is not y:
            y[...] = found
        return y
    a, step = np.asarray(a, y.dtype), max(1, _PIECE * len(y) // max(1, y.size))
    held = np.empty((step, *y.shape[1:]), y.dtype)
    for begin in range(0, len(y), step):
        part = y[begin : begin + step]
        part += np.multiply(x[begin : begin + step], a, out=held[: len(part)])
    return y


def scale_and_add(y: Any, a: Any, x: Any) -> Any:
    """y = a y + x, in place; `a` as for `add_scaled`. Returns y."""
    y *= y.dtype.type(a) if np.ndim(a) == 0 else _row(y, a)
    y += x
    return y


def column_dots(x: Any, y: Any) -> Any:
    """x_j^H y_j of every column j on the host, complex: an array of one for a vector (n,)."""
    if x.ndim == 1:
        return np.array([complex(x.conj() @ y)])
    products = np.einsum("ij,ij->j", x.conj(), y) if isinstance(x, np.ndarray) else (x.conj() * y).sum(axis=0)
    return host(products).astype(complex)


def _row(y: Any, a: Any) -> Any:
    """Numbers for the columns of y, on its device."""
    return arrays.kind_of(y, "y").upload(np.asarray(a).astype(y.dtype), y)
