"""Cholesky and LU factors under JAX's transformations, and systems solved by them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import mansard as ms

from . import launches
from .checks import matrices, promoted, same_dtype, same_rows
from .primitive import Array, Result, Rules, Shape, conj, define, h, lead, or_nan, reduced
from .products import product
from .triangular import apart, beside, congruent, divided, half_triangle

# ---- a = L L^H ----------------------------------------------------------------------------------------------


def _cholesky_host(out: Any, a: Any, *, upper: bool, backend: str | None) -> None:
    _, info = ms.linalg.cholesky_ex(a, upper=upper, out=out[0], backend=backend)
    out[1][...] = info


def _cholesky_tangent(
    results: Any, primals: Any, tangents: Any, *, upper: bool, backend: str | None
) -> list[Array | None]:
    """L times the lower half of L^-1 da L^-H. A matrix counts as Hermitian: so does its change."""
    L, S = or_nan(*results), (tangents[0] + h(tangents[0])) / 2
    L = h(L) if upper else L
    change = product(L, half_triangle(congruent(L, S, backend)), backend=backend)
    return [h(change) if upper else change, None]


def _square_shapes(a: Any, **_: Any) -> list[Result]:
    return [(a.shape, a.dtype), (a.shape[:-2], "int32")]


_cholesky = define(
    Rules("cholesky", _square_shapes, _cholesky_host, (2,), _cholesky_tangent, describe=launches.cholesky)
)


def cholesky_ex(a: Array, /, *, upper: bool = False, backend: str | None = None) -> tuple[Array, Array]:
    (a,) = promoted(a=a)
    matrices(a, "a", square=True)
    factor, info = _cholesky(a, upper=bool(upper), backend=backend)
    return factor, info


def cholesky(a: Array, /, *, upper: bool = False, backend: str | None = None) -> Array:
    return or_nan(*cholesky_ex(a, upper=upper, backend=backend))


def _cho_shapes(c: Any, b: Any, **_: Any) -> list[Result]:
    return [((*lead((c, 2), (b, 2)), *b.shape[-2:]), c.dtype)]


def _cho_host(out: Any, c: Any, b: Any, *, lower: bool, backend: str | None) -> None:
    ms.linalg.cho_solve((c, lower), b, out=out[0], backend=backend)


def _cho_tangent(results: Any, primals: Any, tangents: Any, *, lower: bool, backend: str | None) -> list[Array | None]:
    """With a = L L^H: a dx = db - (dL L^H + L dL^H) x."""
    (c, _), (dc, db) = primals, tangents
    right = db
    if dc is not None:
        part, dpart = (jnp.tril(c), jnp.tril(dc)) if lower else (h(jnp.triu(c)), h(jnp.triu(dc)))
        x = results[0]
        moved = product(dpart, product(part, x, "C", "N", backend), backend=backend)
        moved = moved + product(part, product(dpart, x, "C", "N", backend), backend=backend)
        right = -moved if db is None else db - moved
    return [None if right is None else _cho_solve(c, right, lower=lower, backend=backend)[0]]


def _cho_transpose(cts: Any, operands: Any, shape: Shape, **options: Any) -> Array:
    return reduced(_cho_solve(conj(operands[0]), cts[0], **options)[0], shape)


def _cho_batch(operands: Any, mapped: Any, **options: Any) -> list[Array] | None:
    together = beside(operands, mapped)
    return None if together is None else [apart(_cho_solve(operands[0], together, **options)[0], operands[1])]


_cho_solve = define(Rules("cho_solve", _cho_shapes, _cho_host, (2, 2), _cho_tangent, _cho_transpose, _cho_batch))


def cho_solve(c_and_lower: tuple[Array, bool], b: Array, *, backend: str | None = None) -> Array:
    c, lower = c_and_lower
    c, b = promoted(c=c, b=b)
    columns = b[:, None] if b.ndim == 1 else b
    matrices(c, "c", square=True)
    matrices(columns, "b")
    same_rows(c=c, b=columns)
    x = _cho_solve(c, columns, lower=bool(lower), backend=backend)[0]
    return x[..., 0] if b.ndim == 1 else x


# ---- P a = L U ----------------------------------------------------------------------------------------------


def _lu_shapes(a: Any, **_: Any) -> list[Result]:
    return [(a.shape, a.dtype), ((*a.shape[:-2], min(a.shape[-2:])), "int32"), (a.shape[:-2], "int32")]


def _lu_host(out: Any, a: Any, *, pivot: bool, backend: str | None) -> None:
    _, pivots, info = ms.linalg.lu_factor_ex(a, pivot=pivot, out=out[0], backend=backend)
    out[1][...], out[2][...] = pivots, info


def _exchanged(pivots: Array, b: Array, back: bool = False) -> Array:
    """P b, or P^T b, from the exchanges of rows."""
    order = jax.lax.linalg.lu_pivots_to_permutation(pivots, b.shape[-2])
    order = jnp.argsort(order, -1) if back else order
    order = jnp.broadcast_to(order, (*jnp.broadcast_shapes(order.shape[:-1], b.shape[:-2]), order.shape[-1]))
    b = jnp.broadcast_to(b, (*order.shape[:-1], *b.shape[-2:]))
    return jnp.take_along_axis(b, order[..., None], -2)


def _lu_tangent(results: Any, primals: Any, tangents: Any, *, pivot: bool, backend: str | None) -> list[Array | None]:
    """With M = L^-1 P da U^-1: dL = L times the part of M below its diagonal, dU = the rest of M times U."""
    lu, pivots, _ = results
    if lu.shape[-1] != lu.shape[-2]:
        raise NotImplementedError(f"lu_factor of matrices {lu.shape[-2:]} has no derivative here: pass square ones")
    M = divided(lu, _exchanged(pivots, tangents[0]), "L", diag="U", backend=backend)
    M = divided(lu, M, "U", side="R", backend=backend)
    unit = jnp.tril(lu, -1) + jnp.eye(lu.shape[-1], dtype=lu.dtype)
    change = product(unit, jnp.tril(M, -1), backend=backend) + product(jnp.triu(M), jnp.triu(lu), backend=backend)
    return [change, None, None]


_lu = define(Rules("lu_factor", _lu_shapes, _lu_host, (2,), _lu_tangent, describe=launches.lu_factor))


def lu_factor_ex(a: Array, *, pivot: bool = True, backend: str | None = None) -> tuple[Array, Array, Array]:
    (a,) = promoted(a=a)
    matrices(a, "a")
    lu, pivots, info = _lu(a, pivot=bool(pivot), backend=backend)
    return lu, pivots, info


def lu_factor(a: Array, *, pivot: bool = True, backend: str | None = None) -> tuple[Array, Array]:
    return lu_factor_ex(a, pivot=pivot, backend=backend)[:2]


_TRANS: dict[Any, int] = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def _by_lu_shapes(lu: Any, pivots: Any, b: Any, **_: Any) -> list[Result]:
    return [((*lead((lu, 2), (pivots, 1), (b, 2)), *b.shape[-2:]), lu.dtype)]


def _by_lu_host(out: Any, lu: Any, pivots: Any, b: Any, *, trans: int, backend: str | None) -> None:
    ms.linalg.lu_solve((lu, pivots), b, trans, out=out[0], backend=backend)


def _by_triangles(lu: Array, pivots: Array, b: Array, trans: int, backend: str | None) -> Array:
    """The solution by two triangular systems, which are differentiated in the factors."""
    if trans == 0:
        y = divided(lu, _exchanged(pivots, b), "L", diag="U", backend=backend)
        return divided(lu, y, "U", backend=backend)
    form = "T" if trans == 1 else "C"
    y = divided(lu, divided(lu, b, "U", form, backend=backend), "L", form, diag="U", backend=backend)
    return _exchanged(pivots, y, back=True)


def _by_lu_tangent(results: Any, primals: Any, tangents: Any, *, trans: int, backend: str | None) -> list[Array | None]:
    (lu, pivots, b), (dlu, _, db) = primals, tangents
    found = None if db is None else _lu_solve(lu, pivots, db, trans=trans, backend=backend)[0]
    if dlu is not None:
        _, change = jax.jvp(lambda lu: _by_triangles(lu, pivots, b, trans, backend), (lu,), (dlu,))
        found = change if found is None else found + change
    return [found]


def _by_lu_transpose(
    cts: Any, operands: Any, shape: Shape, *, trans: int, backend: str | None
) -> Array:  # fmt: skip
    lu = conj(operands[0]) if trans == 2 else operands[0]
    found = _lu_solve(lu, operands[1], cts[0], trans=1 if trans == 0 else 0, backend=backend)[0]
    return reduced(found, shape)


def _by_lu_batch(operands: Any, mapped: Any, **options: Any) -> list[Array] | None:
    together = beside(operands, mapped)
    if together is None:
        return None
    return [apart(_lu_solve(*operands[:2], together, **options)[0], operands[2])]


_lu_solve = define(
    Rules("lu_solve", _by_lu_shapes, _by_lu_host, (2, 1, 2), _by_lu_tangent, _by_lu_transpose, _by_lu_batch)
)


def lu_solve(
    lu_and_piv: tuple[Array, Array], b: Array, trans: int = 0, *, backend: str | None = None
) -> Array:  # fmt: skip
    if type(trans) not in (int, str) or trans not in _TRANS:
        raise ValueError(f"trans={trans!r} is not one of 0, 1 and 2")
    lu, pivots = lu_and_piv
    lu, b = promoted(lu=lu, b=b)
    columns = b[:, None] if b.ndim == 1 else b
    matrices(lu, "lu", square=True)
    matrices(columns, "b")
    same_rows(lu=lu, b=columns)
    same_dtype(lu=lu, b=columns)
    x = _lu_solve(lu, pivots, columns, trans=_TRANS[trans], backend=backend)[0]
    return x[..., 0] if b.ndim == 1 else x


PUBLIC = {
    "linalg.cholesky": cholesky, "linalg.cholesky_ex": cholesky_ex, "linalg.cho_solve": cho_solve,
    "linalg.lu_factor": lu_factor, "linalg.lu_factor_ex": lu_factor_ex, "linalg.lu_solve": lu_solve,
}  # fmt: skip
