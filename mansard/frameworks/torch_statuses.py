"""Functions that return `info` instead of raising, on tensors that are differentiated or traced.

They wait for no GPU, so that CUDA graphs capture them with their derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..linalg.eigen import EighExResult, EigvalshExResult
from ..linalg.singular import SVDExResult, SvdvalsExResult
from .torch_calls import Unrecorded, options_of, refining
from .torch_factors import whole
from .torch_function import apply

Tensor = Any


def solve_ex(a: Tensor, b: Tensor, *, assume_a: str = "gen", pivot: bool = True, refine: bool | None = None,
             out: None = None, backend: str | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    options = options_of(backend, assume_a=assume_a, pivot=pivot, **refining(refine))
    if b.dim() > 1:
        return apply("linalg.solve_ex", (a, b), options)  # type: ignore[no-any-return]
    x, info = apply("linalg.solve_ex", (a, b[..., None]), options)
    return x[..., 0], info


def inv_ex(a: Tensor, *, pivot: bool = True, out: None = None, backend: str | None = None) -> tuple[Tensor, Tensor]:
    return apply("linalg.inv_ex", (a,), options_of(backend, pivot=pivot))  # type: ignore[no-any-return]


def cholesky_ex(
    a: Tensor, /, *, upper: bool = False, out: None = None, backend: str | None = None
) -> tuple[Tensor, Tensor]:
    found, info = apply("linalg.cholesky_ex", (a.mH if upper else a,), options_of(backend))
    return found.mH if upper else found, info


def lu_factor_ex(
    a: Tensor, *, pivot: bool = True, out: None = None, backend: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    if a.dim() < 2 or a.shape[-1] != a.shape[-2]:
        raise Unrecorded(
            f"a has shape {tuple(a.shape)}: derivatives of lu_factor_ex need square matrices; pass a.detach(), or take "
            "qr, whose derivatives need none"
        )
    return apply("linalg.lu_factor_ex", (a,), options_of(backend, pivot=pivot))  # type: ignore[no-any-return]


def eigh_ex(a: Tensor, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> EighExResult:
    return EighExResult(*apply("linalg.eigh_ex", (a,), options_of(backend, UPLO=UPLO, driver=driver)))


def eigvalsh_ex(a: Tensor, UPLO: str = "L", *, driver: str = "auto", backend: str | None = None) -> EigvalshExResult:
    w, _, info = eigh_ex(a, UPLO, driver=driver, backend=backend)
    return EigvalshExResult(w, info)


def svd_ex(
    a: Tensor, full_matrices: bool = True, *, hermitian: bool = False, driver: str = "auto", backend: str | None = None
) -> SVDExResult:
    if full_matrices and a.shape[-1] != a.shape[-2]:
        raise Unrecorded(
            f"a has shape {tuple(a.shape)}: svd_ex with full_matrices=True has no derivative; pass full_matrices=False"
        )
    options = options_of(backend, driver=driver, full_matrices=False)
    return SVDExResult(*apply("linalg.svd_ex", (whole(a) if hermitian else a,), options))


def svdvals_ex(
    x: Tensor, /, *, hermitian: bool = False, driver: str = "auto", backend: str | None = None
) -> SvdvalsExResult:
    _, s, _, info = svd_ex(x, False, hermitian=hermitian, driver=driver, backend=backend)
    return SvdvalsExResult(s, info)


CALLS: dict[str, Callable[..., Any]] = {
    f"linalg.{one.__name__}": one
    for one in (cholesky_ex, eigh_ex, eigvalsh_ex, inv_ex, lu_factor_ex, solve_ex, svd_ex, svdvals_ex)
}
