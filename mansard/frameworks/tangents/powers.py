"""Powers of sparse matrices under JAX's transformations: derivatives in vectors and in values.

Plans run as primitives, called back. Powers are linear in x: their transpose is the recurrence backwards, with products
by the transposed matrix. Derivatives in values are those of the recurrence by products, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mansard.operations.sparse.powers.run import Powers
from mansard.operations.sparse.storage import host as on_host

from .checks import operand
from .primitive import Array, Result, Rules, Shape, define
from .sparse import Stored, multiplied, new_values, one_by_one, side_by_side


def _shapes(x: Any, *, P: Powers) -> list[Result]:
    return [(P.shape, P.dtype)]


def _host(out: Any, x: Any, *, P: Powers) -> None:
    P(x, out[0])


def _tangent(results: Any, primals: Any, tangents: Any, *, P: Powers) -> list[Array | None]:
    return [None if tangents[0] is None else _powers(tangents[0], P=P)[0]]


def _transpose(cts: Any, operands: Any, shape: Shape, *, P: Powers) -> Array:
    return _backwards(P, None, cts[0])


def _batch(operands: Any, mapped: Any, *, P: Powers) -> list[Array]:
    return [side_by_side(partial(_by_products, P, None), operands[0])]


_powers = define(Rules("sparse_powers", _shapes, _host, (1,), _tangent, _transpose, _batch))


def _valued_shapes(values: Any, x: Any, *, P: Powers) -> list[Result]:
    return _shapes(x, P=P)


def _valued_host(out: Any, values: Any, x: Any, *, P: Powers) -> None:
    P.with_values(values)(x, out[0])


def _valued_tangent(results: Any, primals: Any, tangents: Any, *, P: Powers) -> list[Array | None]:
    (values, x), (dv, dx) = primals, tangents
    if dv is None:
        return [None if dx is None else _valued(values, dx, P=P)[0]]
    if dx is None:
        return [jax.jvp(lambda values: _by_products(P, values, x), (values,), (dv,))[1]]
    return [jax.jvp(partial(_by_products, P), (values, x), (dv, dx))[1]]


def _valued_transpose(cts: Any, operands: Any, shape: Shape, *, P: Powers) -> Array:
    if operands[0] is None:
        raise NotImplementedError("powers are not linear in data: differentiate them with jax.vjp or jax.grad")
    return _backwards(P, operands[0], cts[0])


def _valued_batch(operands: Any, mapped: Any, *, P: Powers) -> list[Array]:
    if not mapped[0]:
        return [side_by_side(partial(_by_products, P, operands[0]), operands[1])]
    return [one_by_one(lambda *them: _valued(*them, P=P)[0], operands, mapped)]


_valued = define(
    Rules("sparse_powers_of_values", _valued_shapes, _valued_host, (1, 1), _valued_tangent, _valued_transpose,
          _valued_batch)
)  # fmt: skip


# ---- the recurrence by products -------------------------------------------------------------------------------


def _by_products(P: Powers, values: Array | None, x: Array) -> Array:
    """Compute the recurrence v_(k+1) = (alpha_k A + beta_k) v_k + gamma_k v_(k-1) by single products with A."""
    A, task, vectors = Stored.of(P.products()), P._task, [x]
    for alpha, beta, gamma in _coefficients(P):
        found = alpha * multiplied(A, values, vectors[-1])
        found = found + beta * vectors[-1] if beta else found
        vectors.append((found + gamma * vectors[-2] if gamma else found).astype(x.dtype))
    if task.output == "last":
        return vectors[-1]
    stacked = jnp.stack(vectors)
    return stacked if task.output == "all" else jnp.tensordot(_weights(P), stacked, 1, precision="highest")


def _backwards(P: Powers, values: Array | None, g: Array) -> Array:
    """The transpose: g_k = G_k + (alpha_k A^T + beta_k) g_(k+1) + gamma_(k+1) g_(k+2), where G_k is the cotangent of
    v_k in the result; the cotangent of x is g_0."""
    A, task, steps = Stored.of(P.products()).transpose(), P._task, _coefficients(P)
    if task.output == "all":
        found = list(g)
    elif task.output == "last":
        found = [jnp.zeros_like(g)] * task.p + [g]
    else:
        sets = g[None] if task.weights.ndim == 1 else g
        found = list(jnp.tensordot(jnp.atleast_2d(_weights(P)).T, sets, 1, precision="highest"))
    for k in reversed(range(task.p)):
        alpha, beta, _ = steps[k]
        total = found[k] + alpha * multiplied(A, values, found[k + 1])
        total = total + beta * found[k + 1] if beta else total
        after = steps[k + 1][2] if k + 1 < task.p else 0
        found[k] = (total + after * found[k + 2] if after else total).astype(g.dtype)
    return found[0]


def _coefficients(P: Powers) -> list[tuple[Any, Any, Any]]:
    rows, is_complex = P._task.coefficients, P.dtype.kind == "c"
    return [tuple(complex(c) if is_complex else float(np.real(c)) for c in row) for row in rows]  # type: ignore[misc]


def _weights(P: Powers) -> Any:
    weights = P._task.weights
    return (weights if P.dtype.kind == "c" else weights.real).astype(P.dtype)


# ---- public -------------------------------------------------------------------------------------------------


def _checked(P: Powers, x: Any) -> Array:
    x, columns = operand(x, "x"), P._task.columns
    shape = (P.n,) if columns == 1 else (P.n, columns)
    if tuple(x.shape) != shape:
        raise ValueError(f"x has shape {tuple(x.shape)}, the plan was made for {shape}")
    if x.dtype != P.dtype:
        raise TypeError(f"x has dtype {x.dtype}, the plan was made for {P.dtype}: convert x")
    return x


class TracedPowers:
    """Plan of powers whose matrix has traced values: results have derivatives in the values and in x."""

    def __init__(self, powers: Powers, values: Array) -> None:
        self._powers, self._values = powers, values
        self.n, self.shape, self.dtype = powers.n, powers.shape, powers.dtype

    def __call__(self, x: Array) -> Array:
        """The powers of x."""
        return _valued(self._values, _checked(self._powers, x), P=self._powers)[0]

    def permuted(self, x: Array) -> Array:
        """The powers of x, with rows in the order that the matrix is stored in."""
        return _in_stored_order(self._powers, self, x)

    def with_values(self, data: Array) -> TracedPowers:
        """Return a plan for this pattern with other values."""
        return with_values(self._powers, operand(data, "data"))


def _in_stored_order(P: Powers, apply: Callable[[Array], Array], x: Array) -> Array:
    order = on_host(P.permutation)
    return jnp.take(apply(jnp.take(_checked(P, x), np.argsort(order), 0)), order, -1 if P._task.columns == 1 else -2)


def powers(A: Powers, x: Array) -> Array:
    return _powers(_checked(A, x), P=A)[0]


def permuted(A: Powers, x: Array) -> Array:
    return _in_stored_order(A, partial(powers, A), x)


def with_values(A: Powers, data: Array) -> TracedPowers:
    rows = A._source.rows
    return TracedPowers(A, new_values(data, rows.nnz, rows.values_dtype))


PUBLIC = {"Powers.__call__": powers, "Powers.permuted": permuted, "Powers.with_values": with_values}
