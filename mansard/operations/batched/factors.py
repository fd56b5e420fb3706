"""Factors of a batch of products, one number for each matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...arrays.types import Array, Kind, Matrices
from ...plan.problem import DTYPES
from .. import run as call
from .. import stacks
from ..ragged import Ragged
from ..ragged_indices import Indices
from ..ragged_layout import Layout
from .interleaved import Interleaved
from .ragged_call import check_kinds, check_result


def is_number(factor: Array) -> bool:
    """Whether a factor is one number for all matrices: no array, or an array without dimensions."""
    return not isinstance(factor, list | tuple) and not getattr(factor, "shape", ())


def are_numbers(alpha: Array, beta: Array = 0.0) -> bool:
    """Whether both factors are one number for all matrices."""
    return is_number(alpha) and is_number(beta)


def scaled_each(product: Matrices, alpha: Array, beta: Array, out: Matrices, dimensions: int = 2) -> Matrices:
    """alpha_i P_i + beta_i out_i of a fresh product P, in place of P or in `out`. Where beta_i is zero, the content of
    out_i does not count. Nothing is written before every argument has been checked. Each P_i has `dimensions`: 1 for
    vectors."""
    if isinstance(product, Ragged):
        return scaled_ragged(product, alpha, beta, out, Indices.of)
    if isinstance(product, Interleaved):
        raise TypeError("alpha and beta are one number each for an Interleaved: pass stacks or lists")
    kind = stacks.kind_of(product, "a")
    if kind is None:
        return product if out is None else out
    listed = stacks.is_list(product)
    first = product[0] if listed else product
    batch = (len(product),) if listed else tuple(first.shape[: len(first.shape) - dimensions])
    beside = (..., *(None,) * dimensions)
    if kind.immutable:
        factor = _immutable_factor(kind, alpha, beta, out, batch, first)[beside]
        return [one * by for one, by in zip(product, factor, strict=True)] if listed else product * factor
    factors = [_factor(kind, one, batch, first, name)[beside] for one, name in ((alpha, "alpha"), (beta, "beta"))]
    if out is None:
        _check_no_beta(beta)
        return _scaled(product, factors[0], listed)
    _check_places(kind, out, product, listed)
    parts = zip(product, out, *map(list, factors), strict=True) if listed else [(product, out, *factors)]
    for one, place, by, of_place in parts:
        kept = _kept(kind, place, of_place)
        place[...] = one * by + kept
    if kind.written is not None:
        kind.written(out if listed else (out,))
    return out


def scaled_ragged(
    product: Ragged, alpha: Array, beta: Array, out: Ragged | None, written: Callable[[Layout], Indices]
) -> Ragged:
    """`scaled_each` for a ragged batch; `written` names the entries that are read and written, of a triangle say."""
    kind = product._kind
    factors = [
        _factor(kind, one, (len(product),), product.buffer, name) for one, name in ((alpha, "alpha"), (beta, "beta"))
    ]
    if out is None:
        _check_no_beta(beta)
    of_product = written(product.layout)
    values = product.buffer[of_product.beside(product)]
    by, of_place = (factor[of_product.matrices_beside(product)] for factor in factors)
    if out is None:
        product.buffer[of_product.beside(product)] = values * by
        return product
    _check_ragged_place(out, product)
    place = written(out.layout).beside(out)
    out.buffer[place] = values * by + _kept(kind, out.buffer[place], of_place)
    if kind.written is not None:
        kind.written((out.buffer,))
    return out


def _check_ragged_place(out: Ragged, product: Ragged) -> None:
    """A batch of the product's library, dtype and sizes, and writable."""
    if not isinstance(out, Ragged):
        raise TypeError(f"out is a {type(out).__name__} and a a Ragged: where one is a Ragged, so is the other")
    check_kinds(("a", "a"), product, product, out)
    if len(out) != len(product):
        raise ValueError(f"out has {len(out)} matrices, the result {len(product)}")
    if out._view.readonly:
        raise ValueError("out is read-only")
    check_result(out, product.layout)


def _scaled(product: Matrices, alpha: Array, listed: bool) -> Matrices:
    return [one * by for one, by in zip(product, alpha, strict=True)] if listed else product * alpha


def _kept(kind: Kind, place: Array, beta: Array) -> Array:
    """beta_i out_i, zero where beta_i is, whatever out_i holds."""
    zero = kind.astype(beta * 0, place.dtype)
    with np.errstate(invalid="ignore"):
        return kind.module.where(beta == 0, zero, place * beta)


def _factor(kind: Kind, factor: Array, batch: tuple[int, ...], like: Array, name: str) -> Array:
    """The factor as an array of the batch's shape, of the product's dtype and device."""
    if isinstance(factor, list | tuple) or is_number(factor):
        factor = np.asarray(factor)
    real, dtype = "complex" not in str(like.dtype), str(like.dtype).removeprefix("torch.")
    if isinstance(factor, np.ndarray) and factor.dtype.name not in DTYPES and factor.dtype.kind not in "iub":
        raise TypeError(f"{name} has dtype {factor.dtype}: numbers are needed")
    if real and "complex" in str(factor.dtype):
        if not (isinstance(factor, np.ndarray) and not factor.imag.any()):
            raise TypeError(f"{name} must be real for {dtype} matrices")
        factor = factor.real
    if isinstance(factor, np.ndarray) and not kind.on_host_alone:
        factor = kind.upload(factor.astype(dtype), like)
    found = stacks.kind_of(factor, name)
    if found is not kind:
        raise TypeError(f"{name} is a {found.name} array and a a {kind.name} array: convert one of them")
    _check_broadcasts(factor, batch, name)
    kind.view(factor, name)
    return kind.module.broadcast_to(kind.astype(factor, like.dtype), batch)


def _immutable_factor(
    kind: Kind, alpha: Array, beta: Array, out: Matrices, batch: tuple[int, ...], like: Array
) -> Array:  # fmt: skip
    """alpha of JAX arrays, which have no places to write to."""
    if out is not None:
        raise TypeError(f"out is a {kind.name} array, which cannot be written to: use the result")
    _check_no_beta(beta)
    factor = kind.module.asarray(alpha)
    if "complex" in str(factor.dtype) and "complex" not in str(like.dtype):
        raise TypeError(f"alpha must be real for {like.dtype} matrices")
    _check_broadcasts(factor, batch, "alpha")
    return kind.module.broadcast_to(factor.astype(like.dtype), batch)


def _check_no_beta(beta: Array) -> None:
    if not is_number(beta) or beta != 0:
        raise ValueError("beta scales the content of out: pass out")


def _check_broadcasts(factor: Array, batch: tuple[int, ...], name: str) -> None:
    try:
        fits = np.broadcast_shapes(tuple(factor.shape), batch) == batch
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name} has shape {tuple(factor.shape)}, which does not broadcast with the batch {batch}")


def _check_places(kind: Kind, out: Matrices, product: Matrices, listed: bool) -> None:
    """As many places as products, each of its shape and dtype and writable."""
    if stacks.is_list(out) != listed or (listed and len(out) != len(product)):
        raise ValueError(f"out is no {f'list of {len(product)} arrays' if listed else 'array'}, as the result is")
    if stacks.kind_of(out, "out") is not kind:
        raise TypeError("a and out are arrays of different libraries: convert one of them")
    for one, place in zip(product, out, strict=True) if listed else ((product, out),):
        view = kind.view(place, "out")
        call.check_out(view, tuple(one.shape))
        if place.dtype != one.dtype:
            raise TypeError(f"a has dtype {one.dtype} and out {place.dtype}: convert one of them")
