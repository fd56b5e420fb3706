"""Factors, eigenvalues and singular values of tensors that are differentiated or traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..linalg.eigen import EighResult
from ..linalg.nearest import PolarResult, ProcrustesResult
from ..linalg.orthogonal import LstsqResult, QRResult
from ..linalg.singular import SVDResult
from .pullbacks.rule import plain
from .pullbacks.spectral import polar as nearest
from .torch_calls import Unrecorded, gemm, inv, options_of
from .torch_function import apply

Tensor = Any


# ---- QR and least squares -----------------------------------------------------------------------------------


def qr(a: Tensor, mode: str = "reduced", *, backend: str | None = None) -> Any:
    rows, columns = a.shape[-2:]
    if mode not in ("reduced", "complete", "r"):
        raise Unrecorded(f"qr with mode={mode!r} has no derivative: pass mode='reduced', or a.detach()")
    if mode == "complete" and rows > columns:
        raise Unrecorded(
            f"a has shape {tuple(a.shape)}: qr with mode='complete' has no derivative for more rows than columns, as "
            "in PyTorch; pass mode='reduced', or a.detach()"
        )
    if rows >= columns:
        Q, R = apply("linalg.qr", (a,), options_of(backend))
    else:  # the columns behind the first square are the same reflections' work
        Q, first = apply("linalg.qr", (a[..., :rows],), options_of(backend))
        R = torch.cat((first, apply("matmul", (Q.mH, a[..., rows:]), {})), -1)
    return R if mode == "r" else QRResult(Q, R)


def cholesky_qr(V: Tensor, *, out: None = None, shift: str = "auto", on_deficient: str = "raise",
                backend: str | None = None) -> Any:  # fmt: skip
    _only_raising(on_deficient)
    return apply("cholesky_qr", (V,), options_of(backend, shift=shift))


def orthogonalize(V: Tensor, against: Tensor, *, out: None = None, shift: str = "auto", on_deficient: str = "raise",
                  backend: str | None = None) -> Any:  # fmt: skip
    _only_raising(on_deficient)
    return apply("orthogonalize", (V, against), options_of(backend, shift=shift))


def _only_raising(on_deficient: str) -> None:
    if on_deficient != "raise":
        raise Unrecorded(
            f"on_deficient={on_deficient!r}: blocks of full rank alone have a derivative; pass 'raise', or V.detach()"
        )


def lstsq(a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str = "svd",
          backend: str | None = None) -> LstsqResult:  # fmt: skip
    options = options_of(backend, rcond=rcond, driver=driver)
    is_vector = b.dim() == 1
    columns = b[..., None] if is_vector else b
    x = apply("linalg.lstsq", (a, columns), options)
    rank = s = None
    rest = columns - apply("matmul", (a, x), {})
    residuals = (rest.conj() * rest).real.sum(-2)  # `abs` has no second derivative where they are zero
    if _have_values(a, columns):
        told = plain("linalg.lstsq")(a.detach(), columns.detach(), **options)
        rank, s = told.rank, told.s
        residuals = residuals if told.residuals.numel() == residuals.numel() else told.residuals
    return LstsqResult(x[..., 0] if is_vector else x, residuals, rank, s)


def _have_values(*operands: Tensor) -> bool:
    """Whether no operand is mapped or traced."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return all(type(one) in (torch.Tensor, torch.nn.Parameter) and not wrapped(one) for one in operands)


# ---- eigenvalues and singular values ------------------------------------------------------------------------


def eigh(a: Tensor, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> EighResult:
    return EighResult(*apply("linalg.eigh", (a,), options_of(backend, UPLO=UPLO, driver=driver)))


def eigvalsh(a: Tensor, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> Tensor:
    return eigh(a, UPLO, driver=driver, backend=backend).eigenvalues


def whole(a: Tensor) -> Tensor:
    """The Hermitian matrix with this lower triangle."""
    strict, middle = a.tril(-1), a.diagonal(0, -2, -1)
    return strict + strict.mH + (middle.real.to(a.dtype) if a.is_complex() else middle).diag_embed()


def svd(a: Tensor, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False, *,
        driver: str = "auto", backend: str | None = None) -> Any:  # fmt: skip
    if compute_uv and full_matrices and a.shape[-1] != a.shape[-2]:
        raise Unrecorded(
            f"a has shape {tuple(a.shape)}: svd with full_matrices=True has no derivative; pass full_matrices=False"
        )
    a = whole(a) if hermitian else a
    found = SVDResult(*apply("linalg.svd", (a,), options_of(backend, driver=driver)))
    return found if compute_uv else found.S


def svdvals(x: Tensor, /, *, driver: str = "auto", backend: str | None = None) -> Tensor:
    return svd(x, False, False, driver=driver, backend=backend)


def pinv(a: Tensor, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None,
         backend: str | None = None) -> Tensor:  # fmt: skip
    return apply("linalg.pinv", (whole(a) if hermitian else a,), options_of(backend, rcond=rcond, rtol=rtol))


def polar(a: Tensor, side: str = "right", *, backend: str | None = None) -> PolarResult:
    if side not in ("right", "left"):
        raise ValueError(f"side={side!r} is not one of 'right' and 'left'")
    u = nearest(a)
    p = apply("matmul", (u.mH, a) if side == "right" else (a, u.mH), {})
    return PolarResult(u, (p + p.mH) / 2)


def procrustes(a: Tensor, b: Tensor, *, backend: str | None = None) -> ProcrustesResult:
    inner = gemm(a, b, trans_a="C", backend=backend)
    R = nearest(inner)
    scale = (R.conj() * inner).sum((-2, -1))
    return ProcrustesResult(R, scale.real if scale.is_complex() else scale)


def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False, *,
         backend: str | None = None) -> Tensor:  # fmt: skip
    pair = axis if isinstance(axis, tuple | list) and len(axis) == 2 else None
    if axis is None and x.dim() == 2:
        pair = (0, 1)
    if pair is None or ord not in ("nuc", 2, -2):
        if ord is None or (axis is None and x.dim() > 2):
            return torch.linalg.vector_norm(x, 2, axis, keepdims)
        return torch.linalg.norm(x, ord, axis, keepdims)
    moved = x.movedim(tuple(pair), (-2, -1))
    if ord == "nuc":
        found = apply("nuclear", (moved,), options_of(backend))
    else:
        values = svdvals(moved, backend=backend)
        found = values.amax(-1) if ord == 2 else values.amin(-1)
    return found[..., None, None].movedim((-2, -1), tuple(pair)) if keepdims else found


def cond(x: Tensor, p: Any = None, *, backend: str | None = None) -> Tensor:
    if p in (None, 2, -2):
        values = svdvals(x, backend=backend)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    return norm(x, p, (-2, -1), backend=backend) * norm(inv(x, backend=backend), p, (-2, -1), backend=backend)


CALLS: dict[str, Callable[..., Any]] = {
    **{one.__name__: one for one in (cholesky_qr, orthogonalize)},
    **{
        f"linalg.{one.__name__}": one
        for one in (cond, eigh, eigvalsh, lstsq, norm, pinv, polar, procrustes, qr, svd, svdvals)
    },
}
