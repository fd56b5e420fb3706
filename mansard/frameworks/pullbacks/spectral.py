"""Derivatives of eigenvalues, singular values, and of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import mansard as ms

from ...operations.factor import gradients
from .products import gemm, total
from .rule import Given, Gradients, Rule, Tensor, is_final, plain
from .systems import diagonal, hermitian_part, trsm, trsm_adjoint


def _gaps(w: Tensor) -> Tensor:
    """w_j - w_i, ones on the diagonal."""
    return w[..., None, :] - w[..., :, None] + torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)


def _eigh(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """a = V diag(w) V^H: da = V (diag(Gw) + (V^H GV)_ij / (w_j - w_i)) V^H; NaN or inf where eigenvalues are equal and
    GV is not zero, as in PyTorch."""
    (w, V), (Gw, GV) = given.results, cotangents
    if GV is None:
        return (gemm(V * Gw[..., None, :], V.mH),)
    inner = gemm(V.mH, GV) / _gaps(w)
    inner = inner - diagonal(inner).diag_embed()
    if Gw is not None:
        inner = inner + Gw.to(inner.dtype).diag_embed()
    found = gradients.congruence(V, inner, given.options.get("backend")) if is_final(V, inner) else None
    return (gemm(V, gemm(inner, V.mH)) if found is None else found,)


def _eigh_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    (w, V), (da,) = given.results, tangents
    inner = gemm(V.mH, gemm(hermitian_part(da), V))
    dw = diagonal(inner)
    turn = inner / _gaps(w)
    return dw.real if dw.is_complex() else dw, gemm(V, turn - diagonal(turn).diag_embed())


def _run_eigh(a: Tensor, **options: Any) -> Sequence[Tensor]:
    return tuple(plain("linalg.eigh")(a, **options))


def _like_eigh(a: Tensor, **_: Any) -> Sequence[Tensor]:
    w = a[..., 0]
    return w.real if a.is_complex() else w, a


# ---- singular values --------------------------------------------------------------------------------------


def _svd(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """a = U S V^H. With skew(X) = X - X^H and E_ij = s_j^2 - s_i^2 (ones on the diagonal):

    da = U (skew(U^H GU) / E S + S skew(V^H GV) / E + diag(GS)) V^H
         + (1 - U U^H) GU S^-1 V^H + U S^-1 GVh (1 - V V^H); of complex matrices also U diag(i Im(U^H GU) / S) V^H.
    NaN or inf where singular values are equal or zero and GU or GV is not zero, as in PyTorch.
    """
    (U, S, Vh), (GU, GS, GVh) = given.results, cotangents
    if GU is None and GVh is None:
        return (gemm(U * GS[..., None, :], Vh),)
    rows, columns, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    gaps = _gaps(S) * (S[..., None, :] + S[..., :, None])
    gaps = gaps - diagonal(gaps).diag_embed() + torch.eye(k, dtype=S.dtype, device=S.device)
    terms = [None if GS is None else GS.to(U.dtype).diag_embed()]
    if GU is not None:
        left = gemm(U.mH, GU)
        turn = (left - left.mH) / gaps
        terms.append(turn * S[..., None, :])
        if U.is_complex():
            # the diagonal of `turn` is imaginary: turn S of the line before counted it S / 1, and it counts 1 / (2 S)
            across = diagonal(turn)
            terms.append((across / (2 * S) - across * S).diag_embed())
    if GVh is not None:
        right = gemm(Vh, GVh.mH)
        turn = (right - right.mH) / gaps
        turn = turn - diagonal(turn).diag_embed()
        terms.append(turn * S[..., :, None])
    found = gemm(U, gemm(total(*terms), Vh))
    if GU is not None and rows > k:
        found = found + gemm((GU - gemm(U, left)) / S[..., None, :], Vh)
    if GVh is not None and columns > k:
        found = found + gemm(U, (GVh - gemm(right.mH, Vh)) / S[..., :, None])
    return (found,)


def _run_svd(a: Tensor, **options: Any) -> Sequence[Tensor]:
    return tuple(plain("linalg.svd")(a, full_matrices=False, **options))


def _like_svd(a: Tensor, **_: Any) -> Sequence[Tensor]:
    k = min(a.shape[-2:])
    s = a[..., :k, 0] if a.shape[-2] == k else a[..., 0, :k]
    return a[..., :k], s.real if a.is_complex() else s, a[..., :k, :]


# ---- pinv and least squares -------------------------------------------------------------------------------


def _pinv(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    return (pinv_pullback(given.operands[0], given.results[0], cotangents[0]),)


def pinv_pullback(a: Tensor, X: Tensor, G: Tensor) -> Tensor:
    """X = a^+ for a whose rank does not change: da = -X^H G X^H + (1 - a X) G^H X X^H + X^H X G^H (1 - X a)."""
    GH = G.mH
    left, right = gemm(GH, X), gemm(X, GH)
    found = -gemm(gemm(X.mH, G), X.mH)
    if a.shape[-2] > 0:
        found = found + gemm(gemm(GH - gemm(a, right), X), X.mH)
        found = found + gemm(X.mH, gemm(X, GH - gemm(left, a)))
    return found


def _lstsq(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """x = a^+ b. Tall a of full rank: with h = (a^H a)^-1 G, db = a h and da = (b - a x) h^H - db x^H. Otherwise by the
    derivative of a^+."""
    (a, b), (x,), (G,) = given.operands, given.results, cotangents
    if given.options["driver"] == "qr" and a.shape[-2] >= a.shape[-1]:
        R = ms.linalg.qr(a, "r")
        h = trsm(R, trsm_adjoint(R, G, "U"), "U")
        db = gemm(a, h)
        return gemm(b - gemm(a, x), h.mH) - gemm(db, x.mH) if needed[0] else None, db
    X = ms.linalg.pinv(a, rtol=given.options.get("rcond"))
    da = pinv_pullback(a, X, gemm(G, b.mH)) if needed[0] else None
    return da, gemm(X.mH, G)


def _run_lstsq(a: Tensor, b: Tensor, **options: Any) -> Tensor:
    return plain("linalg.lstsq")(a, b, **options).x


# ---- orthogonal factors: derivatives need sums of singular values, not differences -----------------------


def lyapunov(p: Tensor, c: Tensor) -> Tensor:
    """X with p X + X p = c for Hermitian positive p."""
    from ..torch_function import apply

    return apply("lyapunov", (p, c), {})


def _run_lyapunov(p: Tensor, c: Tensor) -> Tensor:
    w, V = plain("linalg.eigh_ex")(p)[:2]
    multiply = plain("matmul")
    inner = multiply(V.mH, multiply(c, V)) / (w[..., None, :] + w[..., :, None])
    return multiply(V, multiply(inner, V.mH))


def _lyapunov(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """dc = Y with p Y + Y p = G, dp = -(Y X^H + X^H Y)."""
    (p,), (X,), (G,) = given.operands[:1], given.results, cotangents
    Y = lyapunov(p, G)
    return -(gemm(Y, X.mH) + gemm(X.mH, Y)) if needed[0] else None, Y


def _lyapunov_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    (p,), (X,), (dp, dc) = given.operands[:1], given.results, tangents
    return (lyapunov(p, total(dc, None if dp is None else -(gemm(dp, X) + gemm(X, dp)))),)


def _polar(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """u of a = u p with at least as many rows as columns: da = u (Y - Y^H) + (1 - u u^H) G p^-1, where
    p Y + Y p = u^H G."""
    (a,), (u,), (G,) = given.operands, given.results, cotangents
    p = hermitian_part(gemm(u.mH, a))
    inner = gemm(u.mH, G)
    Y = lyapunov(p, inner)
    found = gemm(u, Y - Y.mH)
    if u.shape[-2] > u.shape[-1]:
        found = found + ms.linalg.solve(p, (G - gemm(u, inner)).mH, assume_a="pos").mH
    return (found,)


def _run_polar(a: Tensor, **options: Any) -> Tensor:
    return plain("linalg.polar")(a, **options).u


def polar(a: Tensor) -> Tensor:
    """The matrix with orthonormal columns (rows) nearest to a."""
    from ..torch_function import apply

    return apply("linalg.polar", (a,), {}) if a.shape[-2] >= a.shape[-1] else polar(a.mH).mH


def _nuclear(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """The sum of the singular values of a = u p: da = G u."""
    return (cotangents[0][..., None, None] * polar(given.operands[0]),)


def _run_nuclear(a: Tensor, **options: Any) -> Tensor:
    return plain("linalg.norm")(a, "nuc", (-2, -1), **options)


def _like_nuclear(a: Tensor, **_: Any) -> Tensor:
    found = a.sum((-2, -1))
    return found.real if a.is_complex() else found


RULES = (
    Rule("linalg.eigh", _run_eigh, _eigh, _like_eigh, (), (0, 1), _eigh_tangent),
    Rule("linalg.svd", _run_svd, _svd, _like_svd, (), (0, 1, 2)),
    Rule("linalg.pinv", "linalg.pinv", _pinv, lambda a, **_: a.mH, (0,), (0,)),
    Rule("linalg.lstsq", _run_lstsq, _lstsq, lambda a, b, **_: a.mH @ b, (0, 1), (0,)),
    Rule("linalg.polar", _run_polar, _polar, lambda a, **_: a, (0,), (0,)),
    Rule("lyapunov", _run_lyapunov, _lyapunov, lambda p, c, **_: p @ c, (0,), (0,), _lyapunov_tangent),
    Rule("nuclear", _run_nuclear, _nuclear, _like_nuclear, (0,)),
)
