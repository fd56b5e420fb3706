"""Public functions on tensors that are differentiated or traced: in terms of the rules and of PyTorch's arithmetic.

Transposed operands are views, which kernels read as they are; vectors become matrices of one column; what a function
computes beside a rule's results is written down here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..linalg.eigen import EighResult
from ..linalg.lu import SlogdetResult
from ..linalg.nearest import PolarResult, ProcrustesResult
from ..linalg.orthogonal import LstsqResult, QRResult
from ..linalg.singular import SVDResult
from .pullbacks.factor import in_order, row_order
from .pullbacks.rule import plain
from .pullbacks.spectral import polar as nearest
from .torch_function import apply

Tensor = Any


class Unrecorded(Exception):
    """Why a call has no derivative; the text names the remedy."""


def _scaled(result: Tensor, alpha: complex) -> Tensor:
    return result if isinstance(alpha, int | float | complex) and alpha == 1 else alpha * result


def _op(a: Tensor, trans: str) -> Tensor:
    """op(a) as a view."""
    if trans not in ("N", "T", "C"):
        raise ValueError(f"trans={trans!r} is not one of 'N', 'T' and 'C'")
    return a if trans == "N" else a.mT if trans == "T" else a.mH


def _options(backend: str | None, **others: Any) -> dict[str, Any]:
    return others if backend is None else others | {"backend": backend}


def _with_columns(call: Callable[[Tensor], Tensor], b: Tensor, is_vector: bool) -> Tensor:
    """The call on b, as a matrix of one column if it is a vector."""
    return call(b[..., None])[..., 0] if is_vector else call(b)


# ---- products -----------------------------------------------------------------------------------------------


def gram(A: Tensor, B: Tensor = None, *, out: None = None, alpha: complex = 1.0, beta: complex = 0.0,
         conj: bool = True, deterministic: bool = True, backend: str | None = None) -> Tensor:  # fmt: skip
    _no_beta(beta)
    options = _options(backend, deterministic=deterministic)
    if not conj and A.is_complex():
        return _scaled(apply("gram", (A.conj().resolve_conj(), A if B is None else B), options), alpha)
    return _scaled(apply("gram", (A,) if B is None else (A, B), options), alpha)


def _no_beta(beta: complex) -> None:
    if beta != 0:
        raise ValueError("beta scales the content of out: pass out")


def matmul(A: Tensor, B: Tensor, *, out: None = None, alpha: complex = 1.0, beta: complex = 0.0,
           backend: str | None = None) -> Tensor:  # fmt: skip
    _no_beta(beta)
    row, column = A.dim() == 1, B.dim() == 1
    found = apply("matmul", (A[None] if row else A, B[:, None] if column else B), _options(backend))
    found = found[..., 0] if column else found
    if row:
        found = found[..., 0] if column else found.squeeze(-2)
    return _scaled(found, alpha)


def gemm(a: Tensor, b: Tensor, *, alpha: complex = 1.0, beta: complex = 0.0, trans_a: str = "N", trans_b: str = "N",
         out: None = None, backend: str | None = None) -> Tensor:  # fmt: skip
    _no_beta(beta)
    return _scaled(apply("blas.gemm", (_op(a, trans_a), _op(b, trans_b)), _options(backend)), alpha)


def gemv(a: Tensor, x: Tensor, *, alpha: complex = 1.0, beta: complex = 0.0, trans: str = "N", out: None = None,
         backend: str | None = None) -> Tensor:  # fmt: skip
    return gemm(a, x[..., None], alpha=alpha, beta=beta, trans_a=trans, backend=backend)[..., 0]


def syrk(a: Tensor, *, alpha: complex = 1.0, beta: complex = 0.0, uplo: str = "L", trans: str = "N", out: None = None,
         backend: str | None = None) -> Tensor:  # fmt: skip
    return _rank_k("blas.syrk", a, alpha, beta, uplo, trans, "T", backend)


def herk(a: Tensor, *, alpha: float = 1.0, beta: float = 0.0, uplo: str = "L", trans: str = "N", out: None = None,
         backend: str | None = None) -> Tensor:  # fmt: skip
    return _rank_k("blas.herk", a, alpha, beta, uplo, trans, "C", backend)


def _rank_k(name: str, a: Tensor, alpha: complex, beta: complex, uplo: str, trans: str, other: str,
            backend: str | None) -> Tensor:  # fmt: skip
    _no_beta(beta)
    if trans not in ("N", other):
        raise ValueError(f"trans={trans!r} is not one of 'N' and {other!r}")
    return _scaled(apply(name, (_op(a, trans),), _options(backend, uplo=uplo)), alpha)


def matmul_gram(V: Tensor, S: Tensor, *, out: None = None, alpha: complex = 1.0, beta: complex = 0.0,
                backend: str | None = None) -> Any:  # fmt: skip
    _no_beta(beta)
    return apply("matmul_gram", (V, _scaled(S, alpha)), _options(backend))


def project(V: Tensor, W: Tensor, *, out: None = None, backend: str | None = None) -> Any:
    return apply("project", (V, W), _options(backend))


# ---- triangular matrices ------------------------------------------------------------------------------------

_OTHER = {"L": "U", "U": "L"}


def trsm(a: Tensor, b: Tensor, *, side: str = "L", uplo: str = "L", trans: str = "N", diag: str = "N",
         alpha: complex = 1.0, out: None = None, check: bool = False, invert_diagonal: bool = False,
         backend: str | None = None) -> Tensor:  # fmt: skip
    _triangular(side, uplo, diag)
    a, uplo = _op(a, trans), uplo if trans == "N" else _OTHER[uplo]
    options = _options(backend, diag=diag, check=check, invert_diagonal=invert_diagonal)
    if side == "L":
        return apply("blas.trsm", (a, _scaled(b, alpha)), options | {"uplo": uplo})
    return apply("blas.trsm", (a.mT, _scaled(b, alpha).mT), options | {"uplo": _OTHER[uplo]}).mT


def _triangular(side: str, uplo: str, diag: str) -> None:
    for name, value, known in (("side", side, "LR"), ("uplo", uplo, "LU"), ("diag", diag, "NU")):
        if value not in tuple(known):
            raise ValueError(f"{name}={value!r} is not one of {known[0]!r} and {known[1]!r}")


def trsv(a: Tensor, x: Tensor, **options: Any) -> Tensor:
    return trsm(a, x[..., None], **options)[..., 0]


def trmm(a: Tensor, b: Tensor, *, side: str = "L", uplo: str = "L", trans: str = "N", diag: str = "N",
         alpha: complex = 1.0, out: None = None, backend: str | None = None) -> Tensor:  # fmt: skip
    _triangular(side, uplo, diag)
    a = a.tril(-(diag == "U")) if uplo == "L" else a.triu(int(diag == "U"))
    if diag == "U":
        a = a + torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    factors = (_op(a, trans), b) if side == "L" else (b, _op(a, trans))
    return _scaled(apply("blas.gemm", factors, _options(backend)), alpha)


_TRANS = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


def solve_triangular(a: Tensor, b: Tensor, *, lower: bool = False, trans: int | str = 0, unit_diagonal: bool = False,
                     check: bool = False, out: None = None, backend: str | None = None) -> Tensor:  # fmt: skip
    if trans not in _TRANS:
        raise ValueError(f"trans={trans!r} is not one of 0, 1, 2, 'N', 'T' and 'C'")
    form = {"uplo": "L" if lower else "U", "trans": _TRANS[trans], "diag": "U" if unit_diagonal else "N"}
    return _with_columns(lambda b: trsm(a, b, check=check, backend=backend, **form), b, b.dim() == 1)


# ---- systems ------------------------------------------------------------------------------------------------


def solve(a: Tensor, b: Tensor, *, assume_a: str = "gen", pivot: bool = True, out: None = None,
          backend: str | None = None) -> Tensor:  # fmt: skip
    options = _options(backend, assume_a=assume_a, pivot=pivot)
    return _with_columns(lambda b: apply("linalg.solve", (a, b), options), b, b.dim() == 1)


def inv(a: Tensor, *, pivot: bool = True, out: None = None, backend: str | None = None) -> Tensor:
    return apply("linalg.inv", (a,), _options(backend, pivot=pivot))


def cholesky(a: Tensor, /, *, upper: bool = False, out: None = None, backend: str | None = None) -> Tensor:
    found = apply("linalg.cholesky", (a.mH if upper else a,), _options(backend))
    return found.mH if upper else found


def cho_solve(c_and_lower: tuple[Tensor, bool], b: Tensor, *, out: None = None, backend: str | None = None) -> Tensor:
    c, lower = c_and_lower

    def both(b: Tensor) -> Tensor:
        first, second = ("N", "C") if lower else ("C", "N")
        form = {"uplo": "L" if lower else "U", "backend": backend}
        return trsm(c, trsm(c, b, trans=first, **form), trans=second, **form)

    return _with_columns(both, b, b.dim() == 1)


def lu_factor(a: Tensor, *, pivot: bool = True, out: None = None, backend: str | None = None) -> tuple[Tensor, Tensor]:
    if a.dim() < 2 or a.shape[-1] != a.shape[-2]:
        raise Unrecorded(
            f"a has shape {tuple(a.shape)}: derivatives of lu_factor need square matrices; pass a.detach(), or take "
            "qr, whose derivatives need none"
        )
    found: tuple[Tensor, Tensor] = apply("linalg.lu_factor", (a,), _options(backend, pivot=pivot))
    return found


def lu_solve(lu_and_piv: tuple[Tensor, Tensor], b: Tensor, trans: int = 0, *, out: None = None,
             backend: str | None = None) -> Tensor:  # fmt: skip
    lu, piv = lu_and_piv
    if trans not in (0, 1, 2):
        raise ValueError(f"trans={trans!r} is not one of 0, 1 and 2")
    order = row_order(piv, lu.shape[-1])
    unit = {"uplo": "L", "diag": "U", "backend": backend}
    plain_diagonal = {"uplo": "U", "backend": backend}

    def all_steps(b: Tensor) -> Tensor:
        if trans == 0:
            return trsm(lu, trsm(lu, in_order(b, order), **unit), **plain_diagonal)
        op = "T" if trans == 1 else "C"
        return in_order(trsm(lu, trsm(lu, b, trans=op, **plain_diagonal), trans=op, **unit), order.argsort(-1))

    return _with_columns(all_steps, b, b.dim() == 1)


def det(a: Tensor, *, backend: str | None = None) -> Tensor:
    return apply("linalg.det", (a,), _options(backend))


def slogdet(a: Tensor, *, backend: str | None = None) -> SlogdetResult:
    return SlogdetResult(*apply("linalg.slogdet", (a,), _options(backend)))


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
        Q, R = apply("linalg.qr", (a,), _options(backend))
    else:  # the columns behind the first square are the same reflections' work
        Q, first = apply("linalg.qr", (a[..., :rows],), _options(backend))
        R = torch.cat((first, apply("matmul", (Q.mH, a[..., rows:]), {})), -1)
    return R if mode == "r" else QRResult(Q, R)


def cholesky_qr(V: Tensor, *, out: None = None, shift: str = "auto", on_deficient: str = "raise",
                backend: str | None = None) -> Any:  # fmt: skip
    _only_raising(on_deficient)
    return apply("cholesky_qr", (V,), _options(backend, shift=shift))


def orthogonalize(V: Tensor, against: Tensor, *, out: None = None, shift: str = "auto", on_deficient: str = "raise",
                  backend: str | None = None) -> Any:  # fmt: skip
    _only_raising(on_deficient)
    return apply("orthogonalize", (V, against), _options(backend, shift=shift))


def _only_raising(on_deficient: str) -> None:
    if on_deficient != "raise":
        raise Unrecorded(
            f"on_deficient={on_deficient!r}: blocks of full rank alone have a derivative; pass 'raise', or V.detach()"
        )


def lstsq(a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str = "svd",
          backend: str | None = None) -> LstsqResult:  # fmt: skip
    options = _options(backend, rcond=rcond, driver=driver)
    is_vector = b.dim() == 1
    columns = b[..., None] if is_vector else b
    x = apply("linalg.lstsq", (a, columns), options)
    rank = s = None
    residuals = (columns - apply("matmul", (a, x), {})).abs().square().sum(-2)
    if type(a) in (torch.Tensor, torch.nn.Parameter) and not torch._C._functorch.is_functorch_wrapped_tensor(a):
        told = plain("linalg.lstsq")(a.detach(), columns.detach(), **options)
        rank, s = told.rank, told.s
        residuals = residuals if told.residuals.numel() == residuals.numel() else told.residuals
    return LstsqResult(x[..., 0] if is_vector else x, residuals, rank, s)


# ---- eigenvalues and singular values ------------------------------------------------------------------------


def eigh(a: Tensor, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> EighResult:
    return EighResult(*apply("linalg.eigh", (a,), _options(backend, UPLO=UPLO, driver=driver)))


def eigvalsh(a: Tensor, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> Tensor:
    return eigh(a, UPLO, driver=driver, backend=backend).eigenvalues


def _whole(a: Tensor) -> Tensor:
    """The Hermitian matrix with this lower triangle."""
    strict, middle = a.tril(-1), a.diagonal(0, -2, -1)
    return strict + strict.mH + (middle.real.to(a.dtype) if a.is_complex() else middle).diag_embed()


def svd(a: Tensor, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False, *,
        driver: str = "auto", backend: str | None = None) -> Any:  # fmt: skip
    if compute_uv and full_matrices and a.shape[-1] != a.shape[-2]:
        raise Unrecorded(
            f"a has shape {tuple(a.shape)}: svd with full_matrices=True has no derivative; pass full_matrices=False"
        )
    a = _whole(a) if hermitian else a
    found = SVDResult(*apply("linalg.svd", (a,), _options(backend, driver=driver)))
    return found if compute_uv else found.S


def svdvals(x: Tensor, /, *, driver: str = "auto", backend: str | None = None) -> Tensor:
    return svd(x, False, False, driver=driver, backend=backend)


def pinv(a: Tensor, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None,
         backend: str | None = None) -> Tensor:  # fmt: skip
    return apply("linalg.pinv", (_whole(a) if hermitian else a,), _options(backend, rcond=rcond, rtol=rtol))


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
        found = apply("nuclear", (moved,), _options(backend))
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
    **{one.__name__: one for one in (gram, matmul, matmul_gram, project, cholesky_qr, orthogonalize)},
    **{f"blas.{one.__name__}": one for one in (gemm, gemv, herk, syrk, trmm, trsm, trsv)},
    **{
        f"linalg.{one.__name__}": one
        for one in (
            cho_solve, cholesky, cond, det, eigh, eigvalsh, inv, lstsq, lu_factor, lu_solve, norm, pinv, polar,
            procrustes, qr, slogdet, solve, solve_triangular, svd, svdvals,
        )
    },
}  # fmt: skip
