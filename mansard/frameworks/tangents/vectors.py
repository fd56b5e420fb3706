"""BLAS of vectors under JAX's transformations: `dot`, `ger`, `axpy`, `scal`, `iamax`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from .checks import same_dtype, supported
from .primitive import Array
from .products import gemm, gemv


def _vectors(**operands: Array) -> None:
    same_dtype(**operands)
    for name, one in operands.items():
        if one.ndim < 1:
            raise ValueError(f"{name} is a single number: a vector or a stack of vectors is needed")


def dot(x: Array, y: Array, *, conj: bool = False, backend: str | None = None) -> Array:
    _vectors(x=x, y=y)
    return gemv(x[..., None], y, trans="C" if conj else "T", backend=backend)[..., 0]


def ger(
    x: Array, y: Array, *, alpha: Any = 1.0, beta: Any = 0.0, conj: bool = False, backend: str | None = None
) -> Array:
    _vectors(x=x, y=y)
    by = "C" if conj else "T"
    return gemm(x[..., None], y[..., None], alpha=alpha, beta=beta, trans_b=by, backend=backend)


def axpy(x: Array, y: Array, *, alpha: Any = 1.0) -> Array:
    _vectors(x=x, y=y)
    return _times(alpha, x) + y


def scal(x: Array, *, alpha: Any) -> Array:
    _vectors(x=x)
    return _times(alpha, x)


def _times(alpha: Any, x: Array) -> Array:
    """One number for all vectors, or one for each; the result has the dtype of x."""
    factors = jnp.asarray(alpha)
    return ((factors[..., None] if factors.ndim else factors) * x).astype(x.dtype)


def iamax(x: Array) -> Array:
    supported(x, "x")
    return jnp.argmax(abs(x.real) + abs(x.imag), -1)


PUBLIC = {"blas.dot": dot, "blas.ger": ger, "blas.axpy": axpy, "blas.scal": scal, "blas.iamax": iamax}
