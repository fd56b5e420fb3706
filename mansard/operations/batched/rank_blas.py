"""Rank-k and rank-2k updates by SciPy's BLAS: one triangle is computed, where a product computes both."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.linalg import get_blas_funcs

from ...arrays import kinds
from ...arrays.types import Array, Kind
from ...plan.problem import Problem
from .rank_products import Update, by_products, make_diagonal_real

Product = Callable[..., Array]
_WIDE = 64  # rows; with fewer a call of BLAS takes longer than the flops that it saves (Xeon, 2026-11-19)


def pays(problem: Problem, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
    """Whether BLAS is faster than a product for NumPy arrays with these leading dimensions.

    With a place for the result nothing is copied. Without one the other triangle is filled afterwards, which only the
    flops of a Hermitian update outweigh: NumPy's product of A and A^T computes one triangle by itself.
    """
    if problem.N < 2 or shapes[0] != shapes[1] or (shapes[0] and problem.N < _WIDE):
        return False
    hermitian = problem.is_complex and not problem.two and problem.conj_a != problem.conj_b
    return problem.part != "full" or (hermitian and problem.N >= _WIDE)


def by_blas(kind: Kind, form: Update, dtype: str, product: Product) -> Product:
    """The update of NumPy matrices, or of the matrices of stacks one after the other. `product` answers where rows of
    the result are not adjacent, and where alpha is zero: there BLAS does not read the factors.

    BLAS takes columns that are adjacent. Of arrays whose rows are, it is given the transposes, and of a Hermitian
    update it computes the conjugate there: the transposed result. So nothing is copied where factors lie like the
    result; otherwise Hermitian updates conjugate a copy of the factors.
    """
    is_complex = dtype.startswith("complex")
    hermitian = form.hermitian and is_complex
    routine = _routine(("her" if hermitian else "syr") + ("2k" if form.two else "k"), dtype)

    def update(factors: tuple[Array, ...], C: Array, alpha: complex, beta: complex) -> None:
        """alpha M M' + beta C for one matrix C."""
        by_rows, turned = C.flags.c_contiguous, not factors[0].flags.f_contiguous
        if hermitian and turned != by_rows:
            factors = tuple(one.conj() for one in factors)
        if turned:
            factors = tuple(one.T for one in factors)
        if hermitian and by_rows and form.two:
            alpha = alpha.conjugate()
        trans = (2 if hermitian else 1) if form.transposed != turned else 0
        routine(
            alpha, *factors, beta=beta, c=C.T if by_rows else C, trans=trans, lower=form.lower != by_rows, overwrite_c=1
        )

    def run(A: Array, B: Array = None, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
        if alpha == 0.0 or (out is None and beta != 0.0) or not (out is None or _is_adjacent(out)):
            return product(A, B, out, alpha, beta)
        if not is_complex or (hermitian and not form.two):
            alpha = complex(alpha).real
        if not is_complex or hermitian:
            beta = complex(beta).real
        rows = A.shape[-1 if form.transposed else -2]
        C = np.empty((*A.shape[:-2], rows, rows), A.dtype) if out is None else out
        for at in np.ndindex(A.shape[:-2]):
            update((A[at],) if B is None else (A[at], B[at]), C[at], alpha, beta)
        if out is None:
            kind.mirror(C, form.lower, hermitian)
        if hermitian:
            make_diagonal_real(kind, C)
        return C

    return run


def through_numpy(kind: Kind, form: Update, dtype: str, product: Product) -> Product:
    """The update of single matrices of another library in the CPU's memory, as NumPy's arrays of the same memory.
    `product` answers where a place has no such array."""
    numpy = kinds.imported("numpy")
    by_numpy = by_blas(numpy, form, dtype, by_products(numpy, form, None, True))
    address, download, upload = kind.address, kind.download, kind.upload

    def run(A: Array, B: Array = None, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
        place = None if out is None else download(out)
        if place is not None and place.ctypes.data != address(out):
            return product(A, B, out, alpha, beta)
        found = by_numpy(download(A), None if B is None else download(B), place, alpha, beta)
        return upload(found, A) if out is None else out

    return run


def _is_adjacent(out: Array) -> bool:
    """Whether rows or columns of every matrix follow each other without gaps: others BLAS would copy."""
    order, item = out.shape[-1], out.itemsize
    return out.flags.aligned and out.strides[-2:] in ((order * item, item), (item, order * item))


@lru_cache(maxsize=16)
def _routine(name: str, dtype: str) -> Callable[..., Array]:
    found: Callable[..., Array] = get_blas_funcs((name,), dtype=np.dtype(dtype))[0]
    return found
