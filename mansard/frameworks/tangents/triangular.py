"""Triangular matrices under JAX's transformations: `trsm`, `trsv`, `trmm`, `solve_triangular`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

import mansard as ms

from . import launches
from .checks import matrices, same_dtype, scaled
from .primitive import Array, Result, Rules, Shape, conj, define, h, lead, reduced
from .products import form, product

_FLIPPED = {"N": "T", "T": "N", "C": "N"}  # with the conjugate of a where a^H is transposed


def _shapes(a: Any, b: Any, **_: Any) -> list[Result]:
    return [((*lead((a, 2), (b, 2)), *b.shape[-2:]), a.dtype)]


def _host(out: Any, a: Any, b: Any, **options: Any) -> None:
    ms.blas.trsm(a, b, out=out[0], **options)


def triangle(a: Array, uplo: str, diag: str = "N") -> Array:
    """The referenced triangle; with `diag` U without its diagonal, which no derivative depends on."""
    if uplo == "L":
        return jnp.tril(a, -1 if diag == "U" else 0)
    return jnp.triu(a, 1 if diag == "U" else 0)


def _applied(a: Array, x: Array, side: str, trans: str, backend: str | None) -> Array:
    """op(a) x, or x op(a)."""
    return product(a, x, trans, "N", backend) if side == "L" else product(x, a, "N", trans, backend)


def divided(
    a: Array, b: Array, uplo: str = "L", trans: str = "N", side: str = "L", diag: str = "N", backend: str | None = None
) -> Array:
    """X with op(a) X = b, or X op(a) = b."""
    return _trsm(a, b, side=side, uplo=uplo, trans=trans, diag=diag, invert_diagonal=False, backend=backend)[0]


def _tangent(results: Any, primals: Any, tangents: Any, **options: Any) -> list[Array | None]:
    """op(a) dX = db - op(da) X, X to the right of them for the other side."""
    a, (da, db) = primals[0], tangents
    right = db
    if da is not None:
        part = triangle(da, options["uplo"], options["diag"])
        moved = _applied(part, results[0], options["side"], options["trans"], options["backend"])
        right = -moved if db is None else db - moved
    return [None if right is None else _trsm(a, right, **options)[0]]


def _transpose(cts: Any, operands: Any, shape: Shape, **options: Any) -> Array:
    a = conj(operands[0]) if options["trans"] == "C" else operands[0]
    return reduced(_trsm(a, cts[0], **options | {"trans": _FLIPPED[options["trans"]]})[0], shape)


def beside(operands: Any, mapped: Any) -> Array | None:
    """Right-hand sides of a whole batch beside each other, for one matrix that is the same for all."""
    first, b = operands[0], operands[-1]
    if any(mapped[:-1]) or not mapped[-1] or first.ndim != 2 or not b.size:
        return None
    return jnp.moveaxis(b, -2, 0).reshape(b.shape[-2], -1)


def apart(columns: Array, b: Array) -> Array:
    """Solutions for `beside` in the shape of b."""
    *batch, rows, width = b.shape
    return jnp.moveaxis(columns.reshape(rows, *batch, width), 0, -2)


def _batch(operands: Any, mapped: Any, **options: Any) -> list[Array] | None:
    together = beside(operands, mapped) if options["side"] == "L" else None
    return None if together is None else [apart(_trsm(operands[0], together, **options)[0], operands[1])]


_trsm = define(Rules("trsm", _shapes, _host, (2, 2), _tangent, _transpose, _batch, describe=launches.trsm))


# ---- public -------------------------------------------------------------------------------------------------


def trsm(
    a: Array, b: Array, *, side: str = "L", uplo: str = "L", trans: str = "N", diag: str = "N", alpha: Any = 1.0,
    check: bool = False, invert_diagonal: bool = False, backend: str | None = None,
) -> Array:  # fmt: skip
    _checked(a, b, "b", side, uplo, trans, diag)
    if check:
        raise TypeError("check=True looks at values, which traced calls do not have: look for nan in the result")
    invert_diagonal = bool(invert_diagonal)
    (found,) = _trsm(
        a, b, side=side, uplo=uplo, trans=trans, diag=diag, invert_diagonal=invert_diagonal, backend=backend
    )  # fmt: skip
    return scaled(found, alpha, dimensions=2)


def _checked(a: Array, b: Array, name: str, side: str, uplo: str, trans: str, diag: str) -> None:
    matrices(a, "a", square=True)
    matrices(b, name)
    same_dtype(**{"a": a, name: b})
    form("trans", trans)
    for option, value, known in (("side", side, ("L", "R")), ("uplo", uplo, ("L", "U")), ("diag", diag, ("N", "U"))):
        if value not in known:
            raise ValueError(f"{option}={value!r} is not one of {' and '.join(map(repr, known))}")
    at = -2 if side == "L" else -1
    if a.shape[-1] != b.shape[at]:
        what = "rows" if side == "L" else "columns"
        raise ValueError(f"a has {a.shape[-1]} rows and {name} {b.shape[at]} {what}: both need the same number")


def trsv(
    a: Array, x: Array, *, uplo: str = "L", trans: str = "N", diag: str = "N", check: bool = False,
    backend: str | None = None,
) -> Array:  # fmt: skip
    if x.ndim < 1:
        raise ValueError("x has shape (): a vector or a stack of vectors is needed")
    return trsm(a, x[..., None], uplo=uplo, trans=trans, diag=diag, check=check, backend=backend)[..., 0]


def trmm(
    a: Array, b: Array, *, side: str = "L", uplo: str = "L", trans: str = "N", diag: str = "N", alpha: Any = 1.0,
    backend: str | None = None,
) -> Array:  # fmt: skip
    _checked(a, b, "b", side, uplo, trans, diag)
    part = triangle(a, uplo, diag)
    part = part + jnp.eye(a.shape[-1], dtype=a.dtype) if diag == "U" else part
    return scaled(_applied(part, b, side, trans, backend), alpha, dimensions=2)


_TRANS: dict[Any, str] = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


def solve_triangular(
    a: Array, b: Array, *, lower: bool = False, trans: int | str = 0, unit_diagonal: bool = False, check: bool = False,
    backend: str | None = None,
) -> Array:  # fmt: skip
    if type(trans) not in (int, str) or trans not in _TRANS:
        raise ValueError(f"trans={trans!r} is not one of 0, 1, 2, 'N', 'T' and 'C'")
    found = trsm(
        a, b[:, None] if b.ndim == 1 else b, uplo="L" if lower else "U", trans=_TRANS[trans],
        diag="U" if unit_diagonal else "N", check=check, backend=backend,
    )  # fmt: skip
    return found[..., 0] if b.ndim == 1 else found


def congruent(L: Array, S: Array, backend: str | None) -> Array:
    """L^-1 S L^-H for a lower triangle L."""
    return h(divided(L, h(divided(L, S, backend=backend)), backend=backend))


def half_triangle(M: Array) -> Array:
    """The lower triangle of M with half its diagonal: P with P + P^H = M for Hermitian M."""
    lower = jnp.tril(M)
    return lower - 0.5 * lower * jnp.eye(M.shape[-1], dtype=M.dtype)


PUBLIC = {
    "blas.trsm": trsm, "blas.trsv": trsv, "blas.trmm": trmm, "linalg.solve_triangular": solve_triangular,
}  # fmt: skip
