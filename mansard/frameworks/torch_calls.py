"""Products and systems of tensors that are differentiated or traced: in terms of the rules and of PyTorch's arithmetic.

Transposed operands are views, which kernels read as they are; vectors become matrices of one column; what a function
computes beside a rule's results is written down here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..linalg.lu import SlogdetResult
from ..operations.factor.refined import is_asked
from ..plan.problem import Options
from .pullbacks.factor import in_order, row_order
from .torch_function import Call, apply, call_of

Tensor = Any


class Unrecorded(Exception):
    """Why a call has no derivative; the text names the remedy."""


def _scaled(result: Tensor, alpha: Any, dimensions: int | None = None) -> Tensor:
    """alpha times the result: one number, or with the `dimensions` of one result also one for each of a batch."""
    if isinstance(alpha, int | float | complex):
        return result if alpha == 1 else alpha * result
    return factor_of(result, alpha, dimensions) * result


def factor_of(result: Tensor, alpha: Any, dimensions: int | None) -> Tensor:
    """alpha as a tensor that broadcasts with the result."""
    alpha = alpha if isinstance(alpha, torch.Tensor) else torch.as_tensor(alpha, device=result.device)
    if alpha.is_complex() and not result.is_complex():
        raise TypeError(f"alpha must be real for {str(result.dtype).removeprefix('torch.')} matrices")
    alpha = alpha.to(result.dtype)
    if not alpha.dim():
        return alpha
    shape, batch = tuple(alpha.shape), tuple(result.shape[: result.dim() - dimensions] if dimensions else ())
    if not fits(shape, batch):
        raise ValueError(f"alpha has shape {shape}, which does not broadcast with the batch {batch}")
    return alpha[(..., *(None,) * (dimensions or 0))]


def fits(shape: tuple[int, ...], batch: tuple[int, ...]) -> bool:
    """Whether factors of a shape broadcast to a batch of results."""
    return len(shape) <= len(batch) and all(
        one in (1, size) for one, size in zip(reversed(shape), reversed(batch), strict=False)
    )


def _op(a: Tensor, trans: str) -> Tensor:
    """op(a) as a view."""
    if trans not in ("N", "T", "C"):
        raise ValueError(f"trans={trans!r} is not one of 'N', 'T' and 'C'")
    return a if trans == "N" else a.mT if trans == "T" else a.mH


def options_of(backend: str | None, **others: Any) -> dict[str, Any]:
    return others if backend is None else others | {"backend": backend}


def _with_columns(call: Callable[[Tensor], Tensor], b: Tensor, is_vector: bool) -> Tensor:
    """The call on b, as a matrix of one column if it is a vector."""
    return call(b[..., None])[..., 0] if is_vector else call(b)


# ---- products -----------------------------------------------------------------------------------------------


def gram(A: Tensor, B: Tensor = None, *, out: None = None, alpha: complex = 1.0, beta: complex = 0.0,
         conj: bool = True, deterministic: bool = True, backend: str | None = None) -> Tensor:  # fmt: skip
    _no_beta(beta)
    options = options_of(backend, deterministic=deterministic)
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
    found = apply("matmul", (A[None] if row else A, B[:, None] if column else B), options_of(backend))
    found = found[..., 0] if column else found
    if row:
        found = found[..., 0] if column else found.squeeze(-2)
    return _scaled(found, alpha, 2 - row - column)


def gemm(a: Tensor, b: Tensor, *, alpha: complex = 1.0, beta: complex = 0.0, trans_a: str = "N", trans_b: str = "N",
         out: None = None, backend: str | None = None) -> Tensor:  # fmt: skip
    _no_beta(beta)
    return _scaled(apply("blas.gemm", (_op(a, trans_a), _op(b, trans_b)), options_of(backend)), alpha, 2)


def gemv(a: Tensor, x: Tensor, *, alpha: complex = 1.0, beta: complex = 0.0, trans: str = "N", out: None = None,
         backend: str | None = None) -> Tensor:  # fmt: skip
    return gemm(a, x[..., None], alpha=alpha, beta=beta, trans_a=trans, backend=backend)[..., 0]


def dot(x: Tensor, y: Tensor, *, conj: bool = False, backend: str | None = None) -> Tensor:
    return gemv(x[..., None], y, trans="C" if conj else "T", backend=backend)[..., 0]


def ger(x: Tensor, y: Tensor, *, alpha: complex = 1.0, beta: complex = 0.0, conj: bool = False, out: None = None,
        backend: str | None = None) -> Tensor:  # fmt: skip
    trans = "C" if conj else "T"
    return gemm(x[..., None], y[..., None], alpha=alpha, beta=beta, trans_b=trans, backend=backend)


def syrk(a: Tensor, *, alpha: complex = 1.0, beta: complex = 0.0, uplo: str = "L", trans: str = "N", out: None = None,
         backend: str | None = None) -> Tensor:  # fmt: skip
    return _rank_k("blas.syrk", a, alpha, beta, uplo, trans, "T", backend)


def herk(a: Tensor, *, alpha: float = 1.0, beta: float = 0.0, uplo: str = "L", trans: str = "N", out: None = None,
         backend: str | None = None) -> Tensor:  # fmt: skip
    if torch.as_tensor(alpha).is_complex() and torch.as_tensor(alpha).imag.any():
        raise TypeError("alpha must be real: the result would not be Hermitian")
    return _rank_k("blas.herk", a, alpha, beta, uplo, trans, "C", backend)


def syr2k(a: Tensor, b: Tensor, *, alpha: complex = 1.0, beta: complex = 0.0, uplo: str = "L", trans: str = "N",
          out: None = None, backend: str | None = None) -> Tensor:  # fmt: skip
    return _rank_2k("blas.syr2k", a, b, alpha, beta, uplo, trans, "T", backend)


def her2k(a: Tensor, b: Tensor, *, alpha: complex = 1.0, beta: float = 0.0, uplo: str = "L", trans: str = "N",
          out: None = None, backend: str | None = None) -> Tensor:  # fmt: skip
    return _rank_2k("blas.her2k", a, b, alpha, beta, uplo, trans, "C", backend)


def _rank_2k(name: str, a: Tensor, b: Tensor, alpha: complex, beta: complex, uplo: str, trans: str, other: str,
             backend: str | None) -> Tensor:  # fmt: skip
    _check_update(beta, trans, other)
    operands = _scaled(_op(a, trans), alpha, 2), _op(b, trans)
    return apply(name, operands, options_of(backend, uplo=uplo))


def _rank_k(name: str, a: Tensor, alpha: complex, beta: complex, uplo: str, trans: str, other: str,
            backend: str | None) -> Tensor:  # fmt: skip
    _check_update(beta, trans, other)
    return _scaled(apply(name, (_op(a, trans),), options_of(backend, uplo=uplo)), alpha, 2)


def _check_update(beta: complex, trans: str, other: str) -> None:
    _no_beta(beta)
    if trans not in ("N", other):
        raise ValueError(f"trans={trans!r} is not one of 'N' and {other!r}")


def matmul_gram(V: Tensor, S: Tensor, *, out: None = None, alpha: complex = 1.0, beta: complex = 0.0,
                backend: str | None = None) -> Any:  # fmt: skip
    _no_beta(beta)
    return apply("matmul_gram", (V, _scaled(S, alpha)), options_of(backend))


def project(V: Tensor, W: Tensor, *, out: None = None, backend: str | None = None) -> Any:
    return apply("project", (V, W), options_of(backend))


# ---- triangular matrices ------------------------------------------------------------------------------------

_OTHER = {"L": "U", "U": "L"}


def trsm(a: Tensor, b: Tensor, *, side: str = "L", uplo: str = "L", trans: str = "N", diag: str = "N",
         alpha: complex = 1.0, out: None = None, check: bool = False, invert_diagonal: bool = False,
         backend: str | None = None) -> Tensor:  # fmt: skip
    _triangular(side, uplo, diag)
    a, uplo = _op(a, trans), uplo if trans == "N" else _OTHER[uplo]
    options = options_of(backend, diag=diag, check=check, invert_diagonal=invert_diagonal)
    if side == "L":
        return _scaled(apply("blas.trsm", (a, b), options | {"uplo": uplo}), alpha, 2)
    return _scaled(apply("blas.trsm", (a.mT, b.mT), options | {"uplo": _OTHER[uplo]}).mT, alpha, 2)


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
    return _scaled(apply("blas.gemm", factors, options_of(backend)), alpha, 2)


_TRANS = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


def solve_triangular(a: Tensor, b: Tensor, *, lower: bool = False, trans: int | str = 0, unit_diagonal: bool = False,
                     check: bool = False, out: None = None, backend: str | None = None) -> Tensor:  # fmt: skip
    if trans not in _TRANS:
        raise ValueError(f"trans={trans!r} is not one of 0, 1, 2, 'N', 'T' and 'C'")
    form: Options = {"uplo": "L" if lower else "U", "trans": _TRANS[trans], "diag": "U" if unit_diagonal else "N"}
    return _with_columns(lambda b: trsm(a, b, check=check, backend=backend, **form), b, b.dim() == 1)


# ---- systems ------------------------------------------------------------------------------------------------


def solve(a: Tensor, b: Tensor, *, assume_a: str = "gen", pivot: bool = True, refine: bool | None = None,
          out: None = None, backend: str | None = None) -> Tensor:  # fmt: skip
    options = options_of(backend, assume_a=assume_a, pivot=pivot, **refining(refine))
    return _with_columns(lambda b: apply("linalg.solve", (a, b), options), b, b.dim() == 1)


def refining(refine: bool | None) -> dict[str, bool]:
    """The option, where it differs from its default."""
    return {"refine": True} if is_asked(refine) else {}


def inv(a: Tensor, *, pivot: bool = True, out: None = None, backend: str | None = None) -> Tensor:
    return apply("linalg.inv", (a,), options_of(backend, pivot=pivot))


def cholesky(a: Tensor, /, *, upper: bool = False, out: None = None, backend: str | None = None) -> Tensor:
    found = apply("linalg.cholesky", (a.mH if upper else a,), options_of(backend))
    return found.mH if upper else found


def cho_solve(c_and_lower: tuple[Tensor, bool], b: Tensor, *, out: None = None, backend: str | None = None) -> Tensor:
    c, lower = c_and_lower

    def both(b: Tensor) -> Tensor:
        first, second = ("N", "C") if lower else ("C", "N")
        form: Options = {"uplo": "L" if lower else "U", "backend": backend}
        return trsm(c, trsm(c, b, trans=first, **form), trans=second, **form)

    return _with_columns(both, b, b.dim() == 1)


def lu_factor(a: Tensor, *, pivot: bool = True, out: None = None, backend: str | None = None) -> tuple[Tensor, Tensor]:
    if a.dim() < 2 or a.shape[-1] != a.shape[-2]:
        raise Unrecorded(
            f"a has shape {tuple(a.shape)}: derivatives of lu_factor need square matrices; pass a.detach(), or take "
            "qr, whose derivatives need none"
        )
    found: tuple[Tensor, Tensor] = apply("linalg.lu_factor", (a,), options_of(backend, pivot=pivot))
    return found


def lu_solve(lu_and_piv: tuple[Tensor, Tensor], b: Tensor, trans: int = 0, *, out: None = None,
             backend: str | None = None) -> Tensor:  # fmt: skip
    lu, piv = lu_and_piv
    if trans not in (0, 1, 2):
        raise ValueError(f"trans={trans!r} is not one of 0, 1 and 2")
    order = row_order(piv, lu.shape[-1])
    unit: Options = {"uplo": "L", "diag": "U", "backend": backend}
    plain_diagonal: Options = {"uplo": "U", "backend": backend}

    def all_steps(b: Tensor) -> Tensor:
        if trans == 0:
            return trsm(lu, trsm(lu, in_order(b, order), **unit), **plain_diagonal)
        op = "T" if trans == 1 else "C"
        return in_order(trsm(lu, trsm(lu, b, trans=op, **plain_diagonal), trans=op, **unit), order.argsort(-1))

    return _with_columns(all_steps, b, b.dim() == 1)


def det(a: Tensor, *, backend: str | None = None) -> Tensor:
    return apply("linalg.det", (a,), options_of(backend))


def slogdet(a: Tensor, *, backend: str | None = None) -> SlogdetResult:
    return SlogdetResult(*apply("linalg.slogdet", (a,), options_of(backend)))


# calls without options whose operands, if they are matrices, are those of the rule, by name and number of operands
USUAL: dict[tuple[str, int], Call] = {
    ("gram", 1): call_of("gram", (("deterministic", True),)),
    ("gram", 2): call_of("gram", (("deterministic", True),)),
    ("linalg.solve", 2): call_of("linalg.solve", (("assume_a", "gen"), ("pivot", True))),
    ("linalg.inv", 1): call_of("linalg.inv", (("pivot", True),)),
    **{(name, count): call_of(name) for name, count in (
        ("matmul", 2), ("blas.gemm", 2), ("matmul_gram", 2), ("project", 2), ("linalg.cholesky", 1), ("linalg.det", 1),
    )},
}  # fmt: skip

CALLS: dict[str, Callable[..., Any]] = {
    **{one.__name__: one for one in (gram, matmul, matmul_gram, project)},
    **{f"blas.{one.__name__}": one for one in (dot, gemm, gemv, ger, her2k, herk, syr2k, syrk, trmm, trsm, trsv)},
    **{
        f"linalg.{one.__name__}": one
        for one in (cho_solve, cholesky, det, inv, lu_factor, lu_solve, slogdet, solve, solve_triangular)
    },
}
