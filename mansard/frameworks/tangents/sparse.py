"""Products of stored sparse matrices with vectors, under JAX's transformations: derivatives in vectors and in values.

The product y = A(v) x is linear in the values v of the pattern's entries and in x. Its transposes are a product with
the transposed pattern, and `sampled`: for every entry (i, j), the sum of g_i x_j over vectors side by side. That in
turn has products for its transposes, so that every order of derivatives is made of these two primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mansard.operations.sparse.matrix import Matrix

from ...arrays.kinds import imported
from ...kernels.sparse.spmv.spec import narrows
from .checks import is_complex, operand, scaled, supported
from .primitive import Array, Result, Rules, Shape, conj, define

_JAX: Any = imported("jax")


@dataclass(frozen=True)
class Stored:
    """A matrix as a static option: equal to others made of the same storage."""

    sides: Any
    transposed: bool
    conjugated: bool = False

    @staticmethod
    def of(A: Matrix) -> Stored:
        return Stored(A._sides, A._transposed, A._conj)

    def transpose(self) -> Stored:
        return Stored(self.sides, not self.transposed, self.conjugated)

    def matrix(self, values: Any = None) -> Matrix:
        """The matrix, with other values of its pattern if these are given."""
        sides = self.sides if values is None else self.sides.with_values(values)
        return Matrix(sides, self.transposed, self.conjugated)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.sides.shape
        return (columns, rows) if self.transposed else (rows, columns)


def _shapes(x: Any, *, A: Stored) -> list[Result]:
    return [((A.shape[0], *x.shape[1:]), x.dtype)]


def _host(out: Any, x: Any, *, A: Stored) -> None:
    A.matrix().product(x, out[0])


def _tangent(results: Any, primals: Any, tangents: Any, *, A: Stored) -> list[Array | None]:
    return [None if tangents[0] is None else _product(tangents[0], A=A)[0]]


def _transpose(cts: Any, operands: Any, shape: Shape, *, A: Stored) -> Array:
    return _product(cts[0], A=A.transpose())[0]


def _batch(operands: Any, mapped: Any, *, A: Stored) -> list[Array]:
    return [side_by_side(lambda x: _product(x, A=A)[0], operands[0])]


def side_by_side(apply: Callable[[Array], Array], x: Array) -> Array:
    """`apply` to the vectors of a batch, mapped in front, side by side: the matrix is read once for all."""
    x = jnp.moveaxis(x, 0, -1)
    y = apply(x.reshape(x.shape[0], -1))
    return jnp.moveaxis(y.reshape(*y.shape[:-1], *x.shape[1:]), -1, 0)


_product = define(Rules("sparse_product", _shapes, _host, (1,), _tangent, _transpose, _batch))


# ---- products with values of their own ------------------------------------------------------------------------


def one_by_one(apply: Callable[..., Array], operands: Any, mapped: Any) -> Array:
    """`apply` to each element of a batch, one after the other: every element has values of its own."""
    pairs = list(zip(operands, mapped, strict=True))

    def each(them: Any) -> Array:
        own = iter(them)
        return apply(*(next(own) if is_mapped else one for one, is_mapped in pairs))

    return jax.lax.map(each, tuple(one for one, is_mapped in pairs if is_mapped))


def _valued_shapes(values: Any, x: Any, *, A: Stored) -> list[Result]:
    return _shapes(x, A=A)


def _valued_host(out: Any, values: Any, x: Any, *, A: Stored) -> None:
    A.matrix(values).product(x, out[0])


def _valued_tangent(results: Any, primals: Any, tangents: Any, *, A: Stored) -> list[Array | None]:
    """d(A(v) x) = A(dv) x + A(v) dx."""
    (values, x), (dv, dx) = primals, tangents
    parts = [] if dv is None else [_valued(dv, x, A=A)[0]]
    parts += [] if dx is None else [_valued(values, dx, A=A)[0]]
    return [sum(parts[1:], parts[0]) if parts else None]


def _valued_transpose(cts: Any, operands: Any, shape: Shape, *, A: Stored) -> Array:
    (values, x), g = operands, cts[0]
    if x is None:
        return _valued(values, g, A=A.transpose())[0]
    return _sampled(g, x, A=A)[0]


def _valued_batch(operands: Any, mapped: Any, *, A: Stored) -> list[Array]:
    values, x = operands
    if not mapped[0]:
        return [side_by_side(lambda them: _valued(values, them, A=A)[0], x)]
    return [one_by_one(lambda *them: _valued(*them, A=A)[0], operands, mapped)]


_valued = define(
    Rules("sparse_product_of_values", _valued_shapes, _valued_host, (1, 1), _valued_tangent, _valued_transpose,
          _valued_batch)
)  # fmt: skip


def _sampled_shapes(g: Any, x: Any, *, A: Stored) -> list[Result]:
    return [((A.sides.held(False).storage.nnz,), A.sides.dtype)]


def _sampled_host(out: Any, g: Any, x: Any, *, A: Stored) -> None:
    """For every entry (i, j), the sum of g_i x_j; the real part for real values."""
    xp, rows = A.sides.xp, A.sides.held(False).rows()
    i = xp.repeat(xp.arange(len(rows.indptr) - 1), xp.diff(rows.indptr).astype(np.int64))
    i, j = (rows.indices, i) if A.transposed else (i, rows.indices)
    found = g[i] * x[j]
    found = found.sum(-1) if found.ndim > 1 else found
    out[0][...] = found if out[0].dtype.kind == "c" else found.real


def _sampled_tangent(results: Any, primals: Any, tangents: Any, *, A: Stored) -> list[Array | None]:
    (g, x), (dg, dx) = primals, tangents
    parts = [] if dg is None else [_sampled(dg, x, A=A)[0]]
    parts += [] if dx is None else [_sampled(g, dx, A=A)[0]]
    return [sum(parts[1:], parts[0]) if parts else None]


def _sampled_transpose(cts: Any, operands: Any, shape: Shape, *, A: Stored) -> Array:
    g, x = operands
    return _valued(cts[0], x, A=A)[0] if g is None else _valued(cts[0], g, A=A.transpose())[0]


def _sampled_batch(operands: Any, mapped: Any, *, A: Stored) -> list[Array]:
    return [one_by_one(lambda *them: _sampled(*them, A=A)[0], operands, mapped)]


_sampled = define(
    Rules("sparse_sampled", _sampled_shapes, _sampled_host, (1, 1), _sampled_tangent, _sampled_transpose,
          _sampled_batch)
)  # fmt: skip


# ---- public -------------------------------------------------------------------------------------------------


def multiplied(A: Stored, values: Array | None, x: Array) -> Array:
    """A x for the matrix as it is stored, or for traced values of its pattern."""
    if values is None:
        return _product(x, A=A)[0]
    return _valued(conj(values) if A.conjugated else values, x, A=Stored(A.sides, A.transposed))[0]


def new_values(values: Array, count: int, dtype: Any) -> Array:
    """Values for a pattern of `count` entries, in the matrix' dtype."""
    if tuple(values.shape) != (count,):
        raise ValueError(f"data has shape {values.shape}, the pattern {count} entries")
    if not np.can_cast(np.dtype(values.dtype), np.dtype(dtype), "same_kind"):
        raise TypeError(f"data has dtype {values.dtype} and A {dtype}: convert it first")
    return values.astype(dtype)


class _Products:
    """Products with a stored pattern whose values are fixed (None) or traced."""

    def __init__(self, pattern: Stored, values: Array | None) -> None:
        self._pattern, self._values = pattern, values

    def __matmul__(self, x: Array) -> Array:
        return self.product(x)

    def product(self, x: Array, out: None = None, alpha: Any = 1.0, beta: Any = 0.0) -> Array:
        """alpha A x."""
        return scaled(self._times(x, out), alpha, beta)

    def recurrence(self, x: Array, z: Array = None, out: None = None, alpha: Any = 1.0, beta: Any = 0.0,
                   gamma: Any = 0.0) -> Array:  # fmt: skip
        """alpha A x + beta x + gamma z."""
        rows, columns = self._pattern.shape
        if rows != columns:
            raise ValueError(f"A is {rows} x {columns}: a recurrence needs a square matrix")
        found = scaled(self._times(x, out), alpha) + scaled(operand(x, "x"), beta)
        return found if z is None else found + scaled(operand(z, "z"), gamma)

    def _times(self, x: Array, out: None) -> Array:
        if out is not None:
            raise TypeError("out is given and operands are traced by JAX, where nothing is written to: use the result")
        x, sides, columns = operand(x, "x"), self._pattern.sides, self._pattern.shape[1]
        values = sides.held(False).storage.values_dtype
        x = _JAX.promoted(x, values)
        supported(x, "x")
        if not narrows(values, str(x.dtype)) or (sides.dtype.startswith("complex") and not is_complex(x)):
            raise TypeError(f"A holds {values} and x {x.dtype}: convert x, or store A with values={str(x.dtype)!r}")
        if x.ndim not in (1, 2) or x.shape[0] != columns:
            takes = f"({columns},) or ({columns}, k)"
            raise ValueError(f"x has shape {x.shape}: A is {self._pattern.shape}, and takes {takes}")
        return multiplied(self._pattern, self._values, x)


class TracedMatrix(_Products):
    """Sparse matrix with traced values: products have derivatives in the values and in the vectors."""

    def __init__(self, pattern: Stored, values: Array) -> None:
        super().__init__(pattern, values)
        self.shape, self.dtype = pattern.shape, np.dtype(pattern.sides.dtype)
        self.nnz = pattern.sides.held(False).storage.nnz

    @property
    def T(self) -> TracedMatrix:
        return TracedMatrix(self._pattern.transpose(), self._values)

    @property
    def H(self) -> TracedMatrix:
        of = self._pattern
        return TracedMatrix(Stored(of.sides, not of.transposed, not of.conjugated), self._values)

    def with_values(self, data: Array) -> TracedMatrix:
        """Return a matrix of this pattern with other values."""
        if self._pattern.transposed or self._pattern.conjugated:
            raise ValueError("with_values: replace the values of the matrix itself, not of its transposed")
        return TracedMatrix(self._pattern, new_values(operand(data, "data"), self.nnz, self.dtype))


def product(A: Matrix, x: Array, alpha: Any = 1.0, beta: Any = 0.0) -> Array:
    return _Products(Stored.of(A), None).product(x, None, alpha, beta)


def recurrence(
    A: Matrix, x: Array, z: Array = None, alpha: Any = 1.0, beta: Any = 0.0, gamma: Any = 0.0
) -> Array:  # fmt: skip
    return _Products(Stored.of(A), None).recurrence(x, z, None, alpha, beta, gamma)


def with_values(A: Matrix, data: Array) -> TracedMatrix:
    return TracedMatrix(Stored.of(A), new_values(data, A.nnz, A.dtype))


PUBLIC = {
    "sparse.Matrix.__matmul__": product, "sparse.Matrix.product": product, "sparse.Matrix.recurrence": recurrence,
    "sparse.Matrix.with_values": with_values,
}  # fmt: skip
