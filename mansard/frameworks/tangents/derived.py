"""Functions made of singular values and inverses, under JAX's transformations: polar factors, norms, ranks."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from mansard.linalg.nearest import PolarResult, ProcrustesResult

from .checks import matrices, promoted
from .orthogonal import precision
from .primitive import Array, h, or_nan
from .products import product
from .spectral import svdvals_ex, thin_svd
from .systems import inv_ex

# ---- nearest orthogonal matrices ----------------------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _tall_polar(a: Array, backend: str | None) -> tuple[Array, Array]:
    """a = W P of tall or square matrices, W^H W = 1."""
    U, S, Vh = thin_svd(a, backend)
    return product(U, Vh, backend=backend), product(Vh, S[..., :, None] * Vh, "C", "N", backend)


@_tall_polar.defjvp
def _polar_tangent(backend: str | None, primals: Any, tangents: Any) -> Any:
    """With M = W^H da: dW = W X + (da - W M) P^-1, dP = M - X P, where X P + P X = M - M^H: in the eigenvectors of P,
    entries are divided by s_i + s_j."""
    (a,), (da,) = primals, tangents
    mul = partial(product, backend=backend)
    U, S, Vh = thin_svd(a, backend)
    W, P = mul(U, Vh), mul(Vh, S[..., :, None] * Vh, "C", "N")
    M = mul(W, da, "C", "N")
    inner = mul(Vh, mul(M - h(M), Vh, "N", "C")) / (S[..., :, None] + S[..., None, :])
    X = mul(Vh, mul(inner, Vh), "C", "N")
    inverse = mul(Vh, Vh / S[..., :, None], "C", "N")
    dW = mul(W, X)
    if a.shape[-2] > a.shape[-1]:
        dW = dW + mul(da - mul(W, M), inverse)
    dP = M - mul(X, P)
    return (W, P), (dW, (dP + h(dP)) / 2)


def polar(a: Array, side: str = "right", *, backend: str | None = None) -> PolarResult:
    if side not in ("right", "left"):
        raise ValueError(f"side={side!r} is not one of 'right' and 'left'")
    (a,) = promoted(a=a)
    matrices(a, "a")
    tall = a.shape[-2] >= a.shape[-1]
    W, P = _tall_polar(a if tall else h(a), backend)
    if tall == (side == "right"):  # a = W P, or a^H = W P and a = P W^H
        return PolarResult(W if tall else h(W), P)
    other = product(product(W, P, backend=backend), W, "N", "C", backend)
    return PolarResult(W if tall else h(W), other)


def procrustes(a: Array, b: Array, *, backend: str | None = None) -> ProcrustesResult:
    a, b = promoted(a=a, b=b)
    matrices(a, "a")
    matrices(b, "b")
    if a.shape[-2:] != b.shape[-2:]:
        raise ValueError(f"a has matrices of {a.shape[-2:]} and b of {b.shape[-2:]}: both need the same shape")
    R, P = _tall_polar(product(a, b, "C", "N", backend), backend)
    return ProcrustesResult(R, jnp.trace(P, axis1=-2, axis2=-1).real)


# ---- norms, condition numbers, ranks ------------------------------------------------------------------------

_SPECTRAL: dict[Any, Any] = {2: lambda s: s.max(-1), -2: lambda s: s.min(-1), "nuc": lambda s: s.sum(-1)}


def norm(x: Array, ord: Any = None, axis: Any = None, keepdims: bool = False, *, backend: str | None = None) -> Array:
    (x,) = promoted(x=x)
    pair = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    if len(pair) != 2 or ord not in _SPECTRAL:
        return jnp.linalg.norm(x, ord, axis, keepdims)
    first, second = (one % x.ndim for one in pair)
    if first == second:
        raise ValueError(f"axis={axis!r}: the two axes of a matrix differ")
    found = _SPECTRAL[ord](svdvals_ex(jnp.moveaxis(x, (first, second), (-2, -1)), backend=backend)[0])
    return jnp.expand_dims(found, sorted((first, second))) if keepdims else found


def cond(x: Array, p: Any = None, *, backend: str | None = None) -> Array:
    (x,) = promoted(x=x)
    matrices(x, "x", square=p not in (None, 2, -2))
    if 0 in x.shape[-2:]:
        raise ValueError("x has matrices without entries: they have no condition number")
    if p in (None, 2, -2):
        S = svdvals_ex(x, backend=backend)[0]
        ratio = S[..., -1] / S[..., 0] if p == -2 else S[..., 0] / S[..., -1]
    else:
        inverse = or_nan(*inv_ex(x, backend=backend))
        ratio = norm(x, p, (-2, -1), backend=backend) * norm(inverse, p, (-2, -1), backend=backend)
    has_nan = jnp.isnan(x).any((-2, -1))
    return jnp.where(has_nan, jnp.nan, jnp.where(jnp.isnan(ratio), jnp.inf, ratio))


def matrix_rank(
    A: Array, tol: Any = None, hermitian: bool = False, *, rtol: Any = None, backend: str | None = None
) -> Array:  # fmt: skip
    if tol is not None and rtol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    (A,) = promoted(A=A)
    if A.ndim < 2:
        return (A != 0).any().astype(jnp.result_type(int))
    matrices(A, "A", square=bool(hermitian))
    S = svdvals_ex(A, hermitian=hermitian, backend=backend)[0]
    limit = jnp.asarray(tol if tol is not None else precision(A) if rtol is None else rtol)
    limit = limit[..., None] if limit.ndim else limit
    return jnp.sum((limit if tol is not None else limit * S[..., :1]) < S, -1)


PUBLIC = {
    "linalg.polar": polar, "linalg.procrustes": procrustes, "linalg.norm": norm, "linalg.cond": cond,
    "linalg.matrix_rank": matrix_rank,
}  # fmt: skip
