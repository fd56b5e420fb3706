"""Products of stored sparse matrices with vectors, under JAX's transformations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from mansard.operations.sparse.matrix import Matrix

from ...kernels.sparse.spmv.spec import narrows
from .checks import is_complex, scaled, supported
from .primitive import Array, Result, Rules, Shape, define


@dataclass(frozen=True)
class Stored:
    """A matrix as a static option: equal to others made of the same storage."""

    sides: Any
    transposed: bool
    conjugated: bool

    @staticmethod
    def of(A: Matrix) -> Stored:
        return Stored(A._sides, A._transposed, A._conj)

    def matrix(self) -> Matrix:
        return Matrix(self.sides, self.transposed, self.conjugated)


def _shapes(x: Any, *, A: Stored) -> list[Result]:
    rows, columns = A.sides.shape
    return [((columns if A.transposed else rows, *x.shape[1:]), x.dtype)]


def _host(out: Any, x: Any, *, A: Stored) -> None:
    A.matrix().product(x, out[0])


def _tangent(results: Any, primals: Any, tangents: Any, *, A: Stored) -> list[Array | None]:
    return [None if tangents[0] is None else _product(tangents[0], A=A)[0]]


def _transpose(cts: Any, operands: Any, shape: Shape, *, A: Stored) -> Array:
    return _product(cts[0], A=Stored(A.sides, not A.transposed, A.conjugated))[0]


def _batch(operands: Any, mapped: Any, *, A: Stored) -> list[Array]:
    """Vectors of a batch lie side by side: the matrix is read once for all."""
    x = jnp.moveaxis(operands[0], 0, -1)
    y = _product(x.reshape(x.shape[0], -1), A=A)[0]
    return [jnp.moveaxis(y.reshape(y.shape[0], *x.shape[1:]), -1, 0)]


_product = define(Rules("sparse_product", _shapes, _host, (1,), _tangent, _transpose, _batch))


def product(A: Matrix, x: Array, alpha: Any = 1.0, beta: Any = 0.0) -> Array:
    supported(x, "x")
    values = A.storage.values_dtype
    if not narrows(values, str(x.dtype)) or (str(A.dtype).startswith("complex") and not is_complex(x)):
        raise TypeError(f"A holds {values} and x {x.dtype}: convert x, or store A with values={str(x.dtype)!r}")
    if x.ndim not in (1, 2) or x.shape[0] != A.shape[1]:
        raise ValueError(f"x has shape {x.shape}: A is {A.shape}, and takes ({A.shape[1]},) or ({A.shape[1]}, k)")
    return scaled(_product(x, A=Stored.of(A))[0], alpha, beta)


PUBLIC = {"sparse.Matrix.__matmul__": product, "sparse.Matrix.product": product}
