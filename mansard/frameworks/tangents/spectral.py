"""Eigenvalues and singular values under JAX's transformations: `eigh`, `eigvalsh`, `svd`, `svdvals` and their twins.

Tangents divide by differences of eigenvalues (of squared singular values): where two are equal they are NaN, as
everywhere. Those of the values alone do not.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

import mansard as ms
from mansard.linalg.eigen import EighExResult, EighResult, EigvalshExResult
from mansard.linalg.singular import SVDExResult, SVDResult, SvdvalsExResult

from .checks import is_complex, matrices, promoted
from .primitive import Array, Result, Rules, define, finfo, h
from .products import product

_DRIVERS = ("auto", "jacobi", "qr")


def _check_driver(driver: str) -> None:
    if driver not in _DRIVERS:
        raise ValueError(f"driver={driver!r} is not one of {', '.join(map(repr, _DRIVERS))}")


def _real(dtype: Any) -> Any:
    return finfo(dtype).dtype


def diagonal(M: Array) -> Array:
    return jnp.diagonal(M, axis1=-2, axis2=-1)


def differences(w: Array) -> Array:
    """1 / (w_j - w_i), zero on the diagonal."""
    unit = jnp.eye(w.shape[-1], dtype=w.dtype)
    return 1 / (w[..., None, :] - w[..., :, None] + unit) - unit


def hermitian_part(M: Array) -> Array:
    return (M + h(M)) / 2


# ---- a = z diag(w) z^H --------------------------------------------------------------------------------------


def _eigh_shapes(a: Any, **_: Any) -> list[Result]:
    return [(a.shape[:-1], _real(a.dtype)), (a.shape, a.dtype), (a.shape[:-2], "int32")]


def _eigh_host(out: Any, a: Any, **options: Any) -> None:
    out[0][...], out[1][...], out[2][...] = ms.linalg.eigh_ex(a, **options)


def _eigh_tangent(results: Any, primals: Any, tangents: Any, **options: Any) -> list[Array | None]:
    """With M = z^H da z: dw = diag(M), dz = z (M_ij / (w_j - w_i)).
    A matrix counts as Hermitian: so does its change."""
    w, z, _ = results
    by = options["backend"]
    M = product(z, product(hermitian_part(tangents[0]), z, backend=by), "C", "N", by)
    return [diagonal(M).real, product(z, differences(w) * M, backend=by), None]


_eigh = define(Rules("eigh", _eigh_shapes, _eigh_host, (2,), _eigh_tangent))


def _eigvalsh_shapes(a: Any, **_: Any) -> list[Result]:
    return [(a.shape[:-1], _real(a.dtype)), (a.shape[:-2], "int32")]


def _eigvalsh_host(out: Any, a: Any, **options: Any) -> None:
    out[0][...], out[1][...] = ms.linalg.eigvalsh_ex(a, **options)


def _eigvalsh_tangent(results: Any, primals: Any, tangents: Any, **options: Any) -> list[Array | None]:
    """dw_i = z_i^H da z_i."""
    z = _eigh(primals[0], **options)[1]
    moved = product(hermitian_part(tangents[0]), z, backend=options["backend"])
    return [jnp.sum(jnp.conj(z) * moved, -2).real, None]


_eigvalsh = define(Rules("eigvalsh", _eigvalsh_shapes, _eigvalsh_host, (2,), _eigvalsh_tangent))


def _hermitian(a: Array, UPLO: str, driver: str) -> tuple[Array, str]:
    found = UPLO.upper() if isinstance(UPLO, str) else UPLO
    if found not in ("L", "U"):
        raise ValueError(f"UPLO={UPLO!r} is not one of 'L' and 'U'")
    _check_driver(driver)
    (a,) = promoted(a=a)
    matrices(a, "a", square=True)
    return a, found


def eigh_ex(a: Array, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> EighExResult:
    a, UPLO = _hermitian(a, UPLO, driver)
    return EighExResult(*_eigh(a, UPLO=UPLO, driver=driver, backend=backend))


def eigh(a: Array, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> EighResult:
    return EighResult(*eigh_ex(a, UPLO, driver=driver, backend=backend)[:2])


def eigvalsh_ex(a: Array, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> EigvalshExResult:
    a, UPLO = _hermitian(a, UPLO, driver)
    return EigvalshExResult(*_eigvalsh(a, UPLO=UPLO, driver=driver, backend=backend))


def eigvalsh(a: Array, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> Array:
    return eigvalsh_ex(a, UPLO, driver=driver, backend=backend)[0]


# ---- a = U diag(S) Vh ---------------------------------------------------------------------------------------


def _svd_shapes(a: Any, *, full_matrices: bool, **_: Any) -> list[Result]:
    *batch, m, n = a.shape
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    return [
        ((*batch, m, rows), a.dtype), ((*batch, k), _real(a.dtype)), ((*batch, columns, n), a.dtype),
        (tuple(batch), "int32"),
    ]  # fmt: skip


def _svd_host(out: Any, a: Any, **options: Any) -> None:
    out[0][...], out[1][...], out[2][...], out[3][...] = ms.linalg.svd_ex(a, **options)


def _svd_tangent(results: Any, primals: Any, tangents: Any, **options: Any) -> list[Array | None]:
    """With M = U^H da V: dS = diag(M), and U^H dU = F (M S + S M^H), V^H dV = F (S M + M^H S) entry by entry, where
    F_ij = 1 / (s_j^2 - s_i^2); the part of da outside of U's (V's) columns is divided by S."""
    U, S, Vh, _ = results
    m, n = primals[0].shape[-2:]
    if options["full_matrices"] and m != n:
        raise NotImplementedError("svd with full_matrices=True has no derivative: pass full_matrices=False")
    by = options["backend"]
    da = hermitian_part(tangents[0]) if options["hermitian"] else tangents[0]
    V, row, column = h(Vh), S[..., None, :], S[..., :, None]
    right = product(da, V, backend=by)
    M = product(U, right, "C", "N", by)
    F = differences(S**2)
    du, dv = F * (M * row + column * h(M)), F * (column * M + h(M) * row)
    if is_complex(M):  # the phase of u_i relative to v_i; where s_i is zero, none is defined
        phase = 1j * diagonal(M).imag / S
        du = du + phase[..., None, :] * jnp.eye(S.shape[-1], dtype=M.dtype)
    dU, dV = product(U, du, backend=by), product(V, dv, backend=by)
    if m > n:
        dU = dU + (right - product(U, M, backend=by)) / row
    if n > m:
        dV = dV + (product(da, U, "C", "N", by) - product(V, h(M), backend=by)) / row
    return [dU, diagonal(M).real, h(dV), None]


_svd = define(Rules("svd", _svd_shapes, _svd_host, (2,), _svd_tangent))


def _svdvals_shapes(x: Any, **_: Any) -> list[Result]:
    *batch, m, n = x.shape
    return [((*batch, min(m, n)), _real(x.dtype)), (tuple(batch), "int32")]


def _svdvals_host(out: Any, x: Any, **options: Any) -> None:
    out[0][...], out[1][...] = ms.linalg.svdvals_ex(x, **options)


def _svdvals_tangent(results: Any, primals: Any, tangents: Any, **options: Any) -> list[Array | None]:
    """ds_i = Re(u_i^H da v_i)."""
    U, _, Vh, _ = _svd(primals[0], full_matrices=False, **options)
    da = hermitian_part(tangents[0]) if options["hermitian"] else tangents[0]
    moved = product(da, Vh, "N", "C", options["backend"])
    return [jnp.sum(jnp.conj(U) * moved, -2).real, None]


_svdvals = define(Rules("svdvals", _svdvals_shapes, _svdvals_host, (2,), _svdvals_tangent))


def svd_ex(
    a: Array, full_matrices: bool = True, *, hermitian: bool = False, driver: str = "auto", backend: str | None = None
) -> SVDExResult:
    _check_driver(driver)
    (a,) = promoted(a=a)
    matrices(a, "a", square=bool(hermitian))
    options = dict(hermitian=bool(hermitian), driver=driver, backend=backend)
    square = a.shape[-1] == a.shape[-2]
    return SVDExResult(*_svd(a, full_matrices=bool(full_matrices) and not square, **options))


def svd(
    a: Array, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False, *, driver: str = "auto",
    backend: str | None = None,
) -> Any:  # fmt: skip
    if not compute_uv:
        return svdvals_ex(a, hermitian=hermitian, driver=driver, backend=backend)[0]
    return SVDResult(*svd_ex(a, full_matrices, hermitian=hermitian, driver=driver, backend=backend)[:3])


def svdvals_ex(
    x: Array, /, *, hermitian: bool = False, driver: str = "auto", backend: str | None = None
) -> SvdvalsExResult:  # fmt: skip
    _check_driver(driver)
    (x,) = promoted(x=x)
    matrices(x, "x", square=bool(hermitian))
    return SvdvalsExResult(*_svdvals(x, hermitian=bool(hermitian), driver=driver, backend=backend))


def svdvals(x: Array, /, *, driver: str = "auto", backend: str | None = None) -> Array:
    return svdvals_ex(x, driver=driver, backend=backend)[0]


def thin_svd(a: Array, backend: str | None, hermitian: bool = False) -> tuple[Array, Array, Array]:
    U, S, Vh, _ = _svd(a, full_matrices=False, hermitian=hermitian, driver="auto", backend=backend)
    return U, S, Vh


PUBLIC = {
    "linalg.eigh": eigh, "linalg.eigh_ex": eigh_ex, "linalg.eigvalsh": eigvalsh, "linalg.eigvalsh_ex": eigvalsh_ex,
    "linalg.svd": svd, "linalg.svd_ex": svd_ex, "linalg.svdvals": svdvals, "linalg.svdvals_ex": svdvals_ex,
}  # fmt: skip
