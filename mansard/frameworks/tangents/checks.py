"""What traced operands must be: one library, one supported dtype, shapes that fit. Values are never looked at."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...arrays.jax import is_tracer
from ...plan.problem import DTYPES
from .primitive import Array


def operand(value: Any, name: str) -> Array:
    """A traced or concrete JAX array; anything else is refused with the remedy."""
    if isinstance(value, jax.Array) or is_tracer(type(value)):
        return value
    if isinstance(value, list | tuple):
        raise TypeError(
            f"{name} is a list, which calls traced by JAX do not take: pass a stack, jax.numpy.stack({name})"
        )
    found = type(value).__name__
    if found in ("Ragged", "Interleaved"):
        raise TypeError(
            f"{name} is a {found}, which calls traced by JAX do not take: pad the matrices with unit matrices and pass "
            "a stack (..., m, n), or call outside of jit, grad and vmap"
        )
    raise TypeError(f"{name} is a {found} and other operands are traced by JAX: pass jax.numpy.asarray({name})")


def supported(array: Array, name: str) -> None:
    if str(array.dtype) not in DTYPES:
        raise TypeError(f"{name} has dtype {array.dtype}; supported are {', '.join(DTYPES)}: convert it first")


def same_dtype(**operands: Array) -> None:
    """One supported dtype of all; products do not convert."""
    (first, dtype), *_ = [(name, one.dtype) for name, one in operands.items()]
    for name, one in operands.items():
        supported(one, name)
        if one.dtype != dtype:
            raise TypeError(f"{first} has dtype {dtype} and {name} {one.dtype}: convert one of them")


def promoted(**operands: Array) -> list[Array]:
    """Operands in one supported dtype: integers and mixtures are promoted as by jax.numpy.linalg."""
    for name, one in operands.items():
        if str(one.dtype) not in DTYPES and not jnp.issubdtype(one.dtype, np.integer):
            supported(one, name)
    dtype = jnp.result_type(*operands.values())
    dtype = dtype if jnp.issubdtype(dtype, np.inexact) else jnp.result_type(float)
    return [one.astype(dtype) for one in operands.values()]


def matrices(array: Array, name: str, square: bool = False, exactly: int | None = None) -> None:
    """A matrix or a stack of them, as the function takes them."""
    supported(array, name)
    shape = tuple(array.shape)
    if exactly is not None and len(shape) != exactly:
        raise ValueError(f"{name} has shape {shape}: a matrix (two dimensions) is needed")
    if len(shape) < 2:
        raise np.linalg.LinAlgError(f"{name} has shape {shape}: a matrix or a stack of matrices is needed")
    if square and shape[-1] != shape[-2]:
        raise np.linalg.LinAlgError(f"{name} has shape {shape}: its last two dimensions must be square")


def same_rows(**operands: Array) -> None:
    (first, a), (second, b) = operands.items()
    if a.shape[-2] != b.shape[-2]:
        raise ValueError(f"{first} has {a.shape[-2]} rows and {second} {b.shape[-2]}: both need the same number")


def is_complex(array: Array) -> bool:
    return bool(jnp.issubdtype(array.dtype, np.complexfloating))


def scaled(result: Array, alpha: Any, beta: Any = 0.0, dimensions: int | None = None) -> Array:
    """alpha times the result; alpha may be traced, too. With the `dimensions` of one result it may be one number for
    each of a batch."""
    if not (isinstance(beta, int | float | complex) and beta == 0.0):
        raise ValueError("beta scales the content of out, which traced calls do not have: add beta * out to the result")
    if isinstance(alpha, int | float | complex):
        if alpha == 1.0:
            return result
        if isinstance(alpha, complex) and not is_complex(result):
            if alpha.imag:
                raise TypeError(f"alpha and beta must be real for {result.dtype} matrices")
            alpha = alpha.real
        return (alpha * result).astype(result.dtype)
    alpha = jnp.asarray(alpha)
    if is_complex(alpha) and not is_complex(result):
        raise TypeError(f"alpha and beta must be real for {result.dtype} matrices")
    if alpha.ndim:
        batch = result.shape[: result.ndim - dimensions] if dimensions else ()
        if len(alpha.shape) > len(batch) or jnp.broadcast_shapes(alpha.shape, batch) != batch:
            raise ValueError(f"alpha has shape {alpha.shape}, which does not broadcast with the batch {batch}")
        alpha = alpha[(..., *(None,) * (dimensions or 0))]
    return (alpha * result).astype(result.dtype)
