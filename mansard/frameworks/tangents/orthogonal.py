"""QR and least squares under JAX's transformations: `qr`, `lstsq`, `pinv`."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import mansard as ms
from mansard.linalg.orthogonal import LstsqResult, QRResult

from .checks import matrices, promoted
from .primitive import Array, Result, Rules, define, finfo, h, lead
from .products import product
from .spectral import hermitian_part, thin_svd
from .triangular import divided, half_triangle

# ---- a = Q R ------------------------------------------------------------------------------------------------

_MODES = ("reduced", "complete", "r", "raw")


def _qr_shapes(a: Any, *, mode: str, backend: str | None) -> list[Result]:
    *batch, m, n = a.shape
    k = m if mode == "complete" else min(m, n)
    if mode == "raw":
        return [((*batch, n, m), a.dtype), ((*batch, k), a.dtype)]
    triangle = ((*batch, k, n), a.dtype)
    return [triangle] if mode == "r" else [((*batch, m, k), a.dtype), triangle]


def _qr_host(out: Any, a: Any, *, mode: str, backend: str | None) -> None:
    found = ms.linalg.qr(a, mode, backend=backend)
    for one, value in zip(out, (found,) if mode == "r" else found, strict=True):
        one[...] = value


def _qr_tangent(results: Any, primals: Any, tangents: Any, *, mode: str, backend: str | None) -> list[Array | None]:
    (a,), (da,) = primals, tangents
    m, n = a.shape[-2:]
    if mode == "raw" or (mode == "complete" and m > n):
        raise NotImplementedError(f"qr with mode={mode!r} has no derivative: pass mode='reduced'")
    if mode == "r":
        results = _qr(a, mode="reduced", backend=backend)
    Q, R = results
    dQ, dR = _tall_tangent(Q, R[..., :m], da[..., :m], backend)
    if m < n:  # a = [b, c], b = Q R_b, R_c = Q^H c
        rest = product(dQ, a[..., m:], "C", "N", backend) + product(Q, da[..., m:], "C", "N", backend)
        dR = jnp.concatenate([dR, rest], -1)
    return [dR] if mode == "r" else [dQ, dR]


def _tall_tangent(Q: Array, R: Array, da: Array, backend: str | None) -> tuple[Array, Array]:
    """With D = da R^-1 and M = Q^H D: dR = T R, dQ = D - Q T, where T is the upper triangle with T + T^H = M + M^H and
    a real diagonal (that of R stays real)."""
    D = divided(R, da, "U", side="R", backend=backend)
    M = product(Q, D, "C", "N", backend)
    T = h(half_triangle(M + h(M)))
    return D - product(Q, T, backend=backend), product(T, R, backend=backend)


_qr = define(Rules("qr", _qr_shapes, _qr_host, (2,), _qr_tangent))


def qr(a: Array, mode: str = "reduced", *, backend: str | None = None) -> Any:
    if mode not in _MODES:
        raise ValueError(f"mode={mode!r} is not one of {', '.join(map(repr, _MODES))}")
    (a,) = promoted(a=a)
    matrices(a, "a")
    found = _qr(a, mode=mode, backend=backend)
    return found[0] if mode == "r" else tuple(found) if mode == "raw" else QRResult(*found)


# ---- pseudo-inverse -----------------------------------------------------------------------------------------


def _cut(S: Array, rcond: Any) -> Array:
    """Reciprocals of the singular values above rcond times the largest, zero for the others."""
    rcond = jnp.asarray(rcond)
    above = (rcond[..., None] if rcond.ndim else rcond) * S[..., :1] < S
    return jnp.where(jnp.isnan(S), jnp.nan, jnp.where(above, 1 / jnp.where(above, S, 1), 0))


def precision(a: Array) -> float:
    return float(finfo(a.dtype).eps) * int(max(a.shape[-2:]))


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def pseudo_inverse(a: Array, rcond: Any, hermitian: bool, backend: str | None) -> Array:
    """V S^+ U^H."""
    U, S, Vh = thin_svd(a, backend, hermitian)
    return product(_cut(S, rcond)[..., None] * Vh, U, "C", "C", backend)


@pseudo_inverse.defjvp
def _pseudo_inverse_tangent(hermitian: bool, backend: str | None, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """Of matrices whose rank does not change: -P da P + P P^H da^H (1 - a P) + (1 - P a) da^H P^H P."""
    (a, rcond), da = primals, tangents[0]
    da = hermitian_part(da) if hermitian else da
    P = pseudo_inverse(a, rcond, hermitian, backend)
    mul = partial(product, backend=backend)
    tall, wide = mul(P, mul(P, da, "C", "C")), mul(mul(da, P, "C", "C"), P)
    change = tall - mul(mul(tall, a), P) + wide - mul(P, mul(a, wide)) - mul(P, mul(da, P))
    return P, change


def pinv(
    a: Array, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None, backend: str | None = None
) -> Array:  # fmt: skip
    if rcond is not None and rtol is not None:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    (a,) = promoted(a=a)
    matrices(a, "a", square=bool(hermitian))
    if 0 in a.shape:
        return jnp.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    cutoff = rtol if rcond is None else rcond
    limit = jnp.asarray(precision(a) if cutoff is None else cutoff, finfo(a.dtype).dtype)
    return pseudo_inverse(a, limit, bool(hermitian), backend)


# ---- least squares ------------------------------------------------------------------------------------------


def _lstsq_shapes(a: Any, b: Any, *, driver: str, **_: Any) -> list[Result]:
    batch, real = lead((a, 2), (b, 2)), finfo(a.dtype).dtype
    *_, m, n = a.shape
    values = [((*batch, min(m, n)), real)] if driver == "svd" else []
    return [((*batch, n, b.shape[-1]), a.dtype), ((*batch, b.shape[-1]), real), (batch, "int32"), *values]


def _lstsq_host(out: Any, a: Any, b: Any, *, rcond: float | None, driver: str, backend: str | None) -> None:
    stack = a[None] if a.ndim == 2 else a  # of one matrix NumPy's rules leave residuals out
    found = ms.linalg.lstsq(stack, b, rcond, driver=driver, backend=backend)
    for one, value in zip(out, found, strict=False):
        one[...] = value.reshape(one.shape) if value.size == one.size else value


def _lstsq_tangent(
    results: Any, primals: Any, tangents: Any, *, rcond: float | None, driver: str, backend: str | None
) -> list[Array | None]:
    """With P = a^+ and r = b - a x: dx = P (db - da x) + P P^H da^H r + (1 - P a) da^H P^H x."""
    (a, b), (da, db) = primals, tangents
    x, mul = results[0], partial(product, backend=backend)
    U, S, Vh = thin_svd(a, backend)
    P = mul(_cut(S, precision(a) if rcond is None else rcond)[..., None] * Vh, U, "C", "C")
    rest, drest = b - mul(a, x), 0 if db is None else db
    if da is not None:
        drest = drest - mul(da, x)
    dx = mul(P, drest)
    if da is not None:
        thin = mul(da, mul(P, x, "C", "N"), "C", "N")
        dx = dx + mul(P, mul(P, mul(da, rest, "C", "N"), "C", "N")) + thin - mul(P, mul(a, thin))
    dresiduals = 2 * jnp.sum((jnp.conj(rest) * drest).real, -2)  # a^H r = 0: dx does not enter
    if driver == "qr":
        return [dx, dresiduals, None]
    if da is None:
        return [dx, dresiduals, None, None]
    dS = jnp.sum(jnp.conj(U) * mul(da, Vh, "N", "C"), -2).real
    return [dx, dresiduals, None, jnp.broadcast_to(dS, results[3].shape)]


_lstsq = define(Rules("lstsq", _lstsq_shapes, _lstsq_host, (2, 2), _lstsq_tangent))


def lstsq(
    a: Array, b: Array, rcond: float | None = None, *, driver: str = "svd", backend: str | None = None
) -> LstsqResult:  # fmt: skip
    if driver not in ("svd", "qr"):
        raise ValueError(f"driver={driver!r} is not one of 'svd', 'qr'")
    if rcond is not None and not isinstance(rcond, int | float):
        raise TypeError("rcond is traced or an array: pass a number, traced calls of lstsq are compiled for it")
    a, b = promoted(a=a, b=b)
    columns = b[:, None] if b.ndim == 1 else b
    matrices(a, "a")
    matrices(columns, "b")
    if a.shape[-2] != columns.shape[-2]:
        raise ValueError(f"a has {a.shape[-2]} rows and b {columns.shape[-2]}: both need the same number")
    limit = None if rcond is None else float(rcond)
    x, residuals, rank, *values = _lstsq(a, columns, rcond=limit, driver=driver, backend=backend)
    if b.ndim == 1:
        x, residuals = x[..., 0], residuals if a.ndim == 2 else residuals[..., 0]
    return LstsqResult(x, residuals, rank, values[0] if values else None)


PUBLIC = {"linalg.qr": qr, "linalg.pinv": pinv, "linalg.lstsq": lstsq}
