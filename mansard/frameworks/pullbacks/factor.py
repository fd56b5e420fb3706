"""Derivatives of factors: Cholesky, LU, QR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import mansard as ms

from ...operations.factor import gradients
from .products import gemm, total
from .rule import Given, Gradients, Rule, Tensor, is_final, plain
from .systems import diagonal, hermitian_part, trsm, trsm_adjoint, trsm_right_adjoint


def _half_lower(a: Tensor) -> Tensor:
    """The lower triangle with half its diagonal."""
    if torch.is_grad_enabled():
        return a.tril() - diagonal(a).diag_embed() / 2
    lower = a.tril()
    diagonal(lower).mul_(0.5)
    return lower


def _cholesky(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """a = L L^H: da is the Hermitian part of L^-H P L^-1, where P is the lower triangle of L^H G with half its
    diagonal."""
    (L,), (G,) = given.results, cotangents
    if is_final(L, G):
        found = gradients.of_cholesky(L, G, given.options.get("backend"))
        if found is not None:
            return (found,)
    inner = trsm_adjoint(L, _half_lower(gemm(L.mH, G, 0.5)), "L")
    half = trsm_adjoint(L, inner.mH, "L")
    return (half + half.mH,)


def _cholesky_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    """dL = L P, where P is the lower triangle of L^-1 da L^-H with half its diagonal."""
    (L,) = given.results
    inner = trsm(L, hermitian_part(tangents[0]), "L")
    return (gemm(L, _half_lower(trsm(L, inner.mH, "L").mH)),)


# ---- LU ---------------------------------------------------------------------------------------------------


def row_order(piv: Tensor, rows: int) -> Tensor:
    """Row i of P^T a is row order[i] of a, where P is the product of the exchanges."""
    if rows == 0:
        return torch.zeros(piv.shape, dtype=torch.int64, device=piv.device)
    like = torch.empty((*piv.shape[:-1], rows, piv.shape[-1]), device=piv.device)
    return torch.lu_unpack(like, piv + 1, unpack_data=False)[0].argmax(-2)


def in_order(a: Tensor, order: Tensor) -> Tensor:
    """Rows order[0], order[1], ... of every matrix."""
    leading = torch.broadcast_shapes(a.shape[:-2], order.shape[:-1])
    index = order[..., None].expand(*leading, order.shape[-1], a.shape[-1])
    return a.expand(*leading, *a.shape[-2:]).gather(-2, index)


def _lu_factor(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """a = P L U: da = P L^-H (lower(L^H GL) + upper(GU U^H)) U^-H."""
    (lu, piv), G = given.results, cotangents[0]
    unit = torch.eye(lu.shape[-1], dtype=lu.dtype, device=lu.device)
    L, U = lu.tril(-1) + unit, lu.triu()
    inner = gemm(L.mH, G.tril(-1)).tril(-1) + gemm(G.triu(), U.mH).triu()
    found = trsm_right_adjoint(trsm_adjoint(lu, inner, "L", "U"), U, "U")
    if not given.options.get("pivot", True):
        return (found,)
    return (in_order(found, row_order(piv, lu.shape[-1]).argsort(-1)),)


def _run_lu_factor(a: Tensor, **options: Any) -> Sequence[Tensor]:
    return tuple(plain("linalg.lu_factor")(a, **options))


def _like_lu(a: Tensor, **_: Any) -> Sequence[Tensor]:
    return a, a[..., 0].to(torch.int32)


# ---- QR ---------------------------------------------------------------------------------------------------


def qr_pullback(Q: Tensor, R: Tensor, GQ: Tensor | None, GR: Tensor | None) -> Tensor:
    """a = Q R with at least as many rows as columns: da = (GQ + Q S) R^-H. S is Hermitian with the upper triangle of
    GR R^H - Q^H GQ, and a real diagonal."""
    inner = total(
        None if GR is None else gemm(GR, R.mH), None if GQ is None else -gemm(Q.mH, GQ)
    ).triu()
    strict = inner.triu(1)
    real = diagonal(inner).real.to(inner.dtype) if inner.is_complex() else diagonal(inner)
    S = strict + strict.mH + real.diag_embed()
    return trsm_right_adjoint(total(GQ, gemm(Q, S)), R, "U")


def _qr(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    return (qr_pullback(*given.results[:2], *cotangents[:2]),)


def _qr_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    """With X = Q^H da R^-1: dQ = (da R^-1 - Q X) + Q W and dR = (X - W) R, where W is skew-Hermitian with the strictly
    lower triangle of X."""
    (Q, R), (da,) = given.results, tangents
    ratio = trsm_adjoint(R, da.mH, "U").mH
    X = gemm(Q.mH, ratio)
    lower = X.tril(-1)
    W = lower - lower.mH
    if X.is_complex():
        W = W + (diagonal(X).imag * 1j).diag_embed()
    return ratio + gemm(Q, W - X), gemm(X - W, R)


def _run_qr(a: Tensor, **options: Any) -> Sequence[Tensor]:
    return tuple(plain("linalg.qr")(a, **options))


def _like_qr(a: Tensor, **_: Any) -> Sequence[Tensor]:
    return a, a.mH @ a


def _orthogonalize(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """Z = V - P H = Q R, H = P^H V. With the gradient GZ of Z: dV = GZ - P P^H GZ + P GH, dP = -(GZ H^H + V (P^H GZ)^H)
    + V GH^H."""
    (V, P), (Q, R, H), (GQ, GR, GH) = given.operands, given.results, cotangents
    GZ = torch.zeros_like(V) if GQ is None and GR is None else qr_pullback(Q, R, GQ, GR)
    back = ms.gram(P, GZ)
    inner = back if GH is None else back - GH
    dV = GZ - gemm(P, inner) if needed[0] else None
    return dV, -(gemm(GZ, H.mH) + gemm(V, inner.mH)) if needed[1] else None


def _like_orthogonalize(V: Tensor, P: Tensor, **_: Any) -> Sequence[Tensor]:
    return V, V.mH @ V, P.mH @ V


RULES = (
    Rule("linalg.cholesky", "linalg.cholesky", _cholesky, lambda a, **_: a, (), (0,), _cholesky_tangent),
    Rule("linalg.lu_factor", _run_lu_factor, _lu_factor, _like_lu, (), (0, 1), constant=(1,)),
    Rule("linalg.qr", _run_qr, _qr, _like_qr, (), (0, 1), _qr_tangent),
    Rule("cholesky_qr", "cholesky_qr", _qr, _like_qr, (), (0, 1), _qr_tangent, stacks=False),
    Rule(
        "orthogonalize", "orthogonalize", _orthogonalize, _like_orthogonalize, (0, 1), (0, 1, 2), stacks=False
    ),
)
