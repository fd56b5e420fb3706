"""Derivatives of solutions, inverses and determinants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import mansard as ms

from ...linalg.positive import refuse_indefinite
from ...linalg.systems import refuse_singular
from ...operations.factor import gradients
from .products import gemm, total
from .rule import Given, Gradients, Rule, Tensor, is_final, plain

_OTHER = {"L": "U", "U": "L"}
SMALL = 64  # rows; up to here one kernel factors and solves while it reads, faster than triangles solve by factors


def hermitian_part(a: Tensor) -> Tensor:
    return (a + a.mH) / 2


def diagonal(a: Tensor) -> Tensor:
    return a.diagonal(0, -2, -1)


def triangle(a: Tensor, uplo: str, unit: bool = False) -> Tensor:
    """The triangle of a, without its diagonal if that counts as ones."""
    return a.tril(-1 if unit else 0) if uplo == "L" else a.triu(1 if unit else 0)


# ---- triangular systems -----------------------------------------------------------------------------------


def trsm(a: Tensor, b: Tensor, uplo: str, diag: str = "N") -> Tensor:
    """X with a X = b."""
    return ms.blas.trsm(a, b, uplo=uplo, diag=diag)


def trsm_adjoint(a: Tensor, b: Tensor, uplo: str, diag: str = "N") -> Tensor:
    """X with a^H X = b, where `uplo` is the triangle of a."""
    return ms.blas.trsm(a.mH, b, uplo=_OTHER[uplo], diag=diag)


def trsm_right_adjoint(b: Tensor, a: Tensor, uplo: str) -> Tensor:
    """X with X a^H = b, where `uplo` is the triangle of a."""
    return trsm(a, b.mH, uplo).mH


def _trsm(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """a X = b: db = a^-H G, da = -(db X^H), of the triangle."""
    a, X, (G,) = given.operands[0], given.results[0], cotangents
    uplo, diag = given.options["uplo"], given.options["diag"]
    db = trsm_adjoint(a, G, uplo, diag)
    return -triangle(gemm(db, X.mH), uplo, diag == "U") if needed[0] else None, db


def _trsm_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    a, X, (da, db) = given.operands[0], given.results[0], tangents
    uplo, diag = given.options["uplo"], given.options["diag"]
    right = total(db, None if da is None else -gemm(triangle(da, uplo, diag == "U"), X))
    return (trsm(a, right, uplo, diag),)


def _like_solution(a: Tensor, b: Tensor, **_: Any) -> Tensor:
    return a @ b


# ---- solve and inv ----------------------------------------------------------------------------------------


def _run_solve(a: Tensor, b: Tensor, checked: bool = True, **options: Any) -> Tensor:
    if checked:
        return plain("linalg.solve")(a, b, **options)
    return plain("linalg.solve_ex")(a, b, **options)[0]  # backward does not wait for a GPU


def _keep_factors(a: Tensor, b: Tensor, assume_a: str = "gen", pivot: bool = True, checked: bool = True,
                  refine: bool = False, backend: str | None = None
                  ) -> tuple[Tensor, Sequence[Tensor]] | None:  # fmt: skip
    """Solutions by factors, and the factors; None for matrices that one kernel factors and solves, and where factors
    in single precision are refined."""
    if refine or not _has_large(a) or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        return None
    if assume_a == "pos":
        L, info = plain("linalg.cholesky_ex")(a, backend=backend)
        if checked:
            refuse_indefinite(info)
        return plain("linalg.cho_solve")((L, True), b, backend=backend), (L,)
    lu, piv, info = plain("linalg.lu_factor_ex")(a, pivot=pivot, backend=backend)
    if checked:
        refuse_singular(info)
    return plain("linalg.lu_solve")((lu, piv), b, backend=backend), (lu, piv)


def _has_large(a: Tensor) -> bool:
    """Whether keeping factors of these square matrices pays."""
    return bool(a.ndim >= 2 and a.shape[-1] == a.shape[-2] > SMALL and a.numel() > 0)


def solved_with(saved: Sequence[Tensor], b: Tensor, options: dict[str, Any]) -> Tensor:
    """X with a^H X = b, by the factors of a."""
    by = options.get("backend")
    if len(saved) == 1:
        return plain("linalg.cho_solve")((saved[0], True), b, backend=by)
    return plain("linalg.lu_solve")(tuple(saved), b, 2 if saved[0].is_complex() else 1, backend=by)


def unchecked_solve(a: Tensor, b: Tensor, options: dict[str, Any]) -> Tensor:
    """X with a X = b; whether a is singular was asked before."""
    from ..torch_function import apply

    return apply("linalg.solve", (a, b), options | {"checked": False})


def _solve(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """a X = b: db = a^-H G, da = -db X^H; Hermitian of a Hermitian a, of which half is read."""
    a, X, (G,) = given.operands[0], given.results[0], cotangents
    hermitian = given.options["assume_a"] == "pos"
    if needed[0] and not hermitian and not given.saved and is_final(a, X, G):
        pivot, backend = given.options.get("pivot", True), given.options.get("backend")
        found = gradients.of_solution(a, X, G, pivot, backend)
        if found is not None:
            return found
    if given.saved and not torch.is_grad_enabled():
        db = solved_with(given.saved, G, given.options)
    else:
        db = unchecked_solve(a if hermitian else a.mH, G, given.options)
    if not needed[0]:
        return None, db
    da = gemm(db, X.mH, -0.5 if hermitian else -1.0)
    return da + da.mH if hermitian else da, db


def _solve_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    a, X, (da, db) = given.operands[0], given.results[0], tangents
    if da is not None and given.options["assume_a"] == "pos":
        da = hermitian_part(da)
    return (unchecked_solve(a, total(db, None if da is None else -gemm(da, X)), given.options),)


def _inv(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """X = a^-1: da = -X^H G X^H."""
    (X,), (G,) = given.results, cotangents
    found = gradients.of_inverse(X, G, given.options.get("backend")) if is_final(X, G) else None
    return (gemm(X.mH, gemm(G, X.mH), -1.0) if found is None else found,)


def _inv_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    (X,) = given.results
    return (-gemm(X, gemm(tangents[0], X)),)


# ---- determinants -----------------------------------------------------------------------------------------


def _unit(a: Tensor) -> Tensor:
    return torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)


def _inverse(given: Given) -> Tensor:
    """The inverse, or what elimination makes of a singular matrix."""
    (a,) = given.operands
    if torch.is_grad_enabled() or type(a) is not torch.Tensor:  # differentiated again, or traced
        return unchecked_solve(a, _unit(a), {"assume_a": "gen"})
    if given.saved:
        return solved_with(given.saved, _unit(a), given.options).mH
    return plain("linalg.inv_ex")(a, **given.options)[0]


def _keep_factors_of_determinant(a: Tensor, backend: str | None = None) -> tuple[Tensor, Sequence[Tensor]] | None:
    """Determinants by factors, and the factors; None for matrices of which one kernel finds them."""
    if not _has_large(a):
        return None
    lu, piv, _ = plain("linalg.lu_factor_ex")(a, backend=backend)
    return diagonal(lu).prod(-1) * _sign_of(piv), (lu, piv)


def _keep_factors_of_logdet(
    a: Tensor, backend: str | None = None
) -> tuple[tuple[Tensor, Tensor], Sequence[Tensor]] | None:
    """Signs and logarithms of determinants by factors, and the factors; None as for determinants."""
    if not _has_large(a):
        return None
    lu, piv, _ = plain("linalg.lu_factor_ex")(a, backend=backend)
    pivots = diagonal(lu)
    return (pivots.sgn().prod(-1) * _sign_of(piv), pivots.abs().log().sum(-1)), (lu, piv)


def _sign_of(piv: Tensor) -> Tensor:
    """The sign of the permutation that exchanges of rows make."""
    steps = torch.arange(piv.shape[-1], device=piv.device)
    return 1 - 2 * ((piv != steps).sum(-1) % 2)


def cofactors(a: Tensor, saved: Sequence[Tensor] = ()) -> Tensor:
    """The gradient of det(a)^*, det(a)^* a^-H, of singular matrices too: zeros on the diagonal of U become as small as
    rounding errors, which changes cofactors by as little."""
    lu, piv = saved or plain("linalg.lu_factor_ex")(a)[:2]
    pivots = diagonal(lu)
    least = torch.finfo(a.dtype).eps * pivots.abs().amax(-1, keepdim=True)
    pivots = torch.where(pivots == 0, torch.where(least == 0, torch.ones_like(least), least), pivots)
    lu = lu - diagonal(lu).diag_embed() + pivots.diag_embed()
    inverse = plain("linalg.lu_solve")((lu, piv), _unit(a))
    return inverse.mH * (pivots.prod(-1) * _sign_of(piv)).conj()[..., None, None]


def _det(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """d det = det tr(a^-1 da): da = G conj(det) a^-H."""
    (a,), (det,), (G,) = given.operands, given.results, cotangents
    if torch.is_grad_enabled() or type(a) is not torch.Tensor:  # differentiated again, or traced
        return ((G * det.conj())[..., None, None] * _inverse(given).mH,)
    return (G[..., None, None] * cofactors(a, given.saved),)


def _det_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    return (given.results[0] * _trace_of_ratio(given, tangents),)


def _trace_of_ratio(given: Given, tangents: Sequence[Tensor]) -> Tensor:
    """tr(a^-1 da), the derivative of log det."""
    return diagonal(unchecked_solve(given.operands[0], tangents[0], {"assume_a": "gen"})).sum(-1)


def _slogdet(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """d log|det| = Re t and d sign = i sign Im t with t = tr(a^-1 da): da = (Glog - i Im(conj(Gsign) sign)) a^-H."""
    (a,), (sign, _), (GS, GL) = given.operands, given.results, cotangents
    factor = GL
    if a.is_complex() and GS is not None:
        phase = (GS.conj() * sign).imag
        factor = torch.complex(torch.zeros_like(phase) if GL is None else GL, -phase)
    if factor is None:
        return (torch.zeros_like(a),)
    return (factor[..., None, None] * _inverse(given).mH,)


def _slogdet_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    sign = given.results[0]
    t = _trace_of_ratio(given, tangents)
    return (sign * t.imag * 1j, t.real) if t.is_complex() else (torch.zeros_like(sign), t)


def _like_det(a: Tensor, **_: Any) -> Tensor:
    return a.sum((-2, -1))


def _like_slogdet(a: Tensor, **_: Any) -> Sequence[Tensor]:
    found = a.sum((-2, -1))
    return found, found.real if a.is_complex() else found.clone()


RULES = (
    Rule("blas.trsm", "blas.trsm", _trsm, _like_solution, (0,), (0,), _trsm_tangent),
    Rule("linalg.solve", _run_solve, _solve, _like_solution, (0,), (0,), _solve_tangent, saving=_keep_factors),
    Rule("linalg.inv", "linalg.inv", _inv, lambda a, **_: a, (), (0,), _inv_tangent),
    Rule(
        "linalg.det", "linalg.det", _det, _like_det, (0,), (0,), _det_tangent, saving=_keep_factors_of_determinant
    ),
    Rule(
        "linalg.slogdet", "linalg.slogdet", _slogdet, _like_slogdet, (0,), (0, 1), _slogdet_tangent,
        saving=_keep_factors_of_logdet,
    ),
)
