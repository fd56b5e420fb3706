"""Rank-k updates by a product, of which one triangle counts: where no kernel computes the triangle alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...arrays.types import Array, Kind, Matrices
from ...plan.route import Library
from .. import stacks
from ..tall_skinny.matmul import matmul
from .gemm_call import GEMM, Form, multiply


class Update(NamedTuple):
    """What is updated: alpha op(a) op(a)' + beta out, or alpha op(a) op(b)' + its transpose + beta out."""

    lower: bool = True  # the triangle of `out` that is written
    transposed: bool = False  # op is the transpose, or (`hermitian`) the adjoint
    hermitian: bool = False  # ' is the adjoint; otherwise the transpose
    two: bool = False

    @property
    def product(self) -> Form:
        """The product of which a triangle counts."""
        turned, conj = self.transposed, self.hermitian
        return Form(turned, turned and conj, not turned, not turned and conj)


def each(operand: Matrices) -> Matrices:
    """The arrays of a list; an array by itself."""
    return operand if stacks.is_list(operand) else (operand,)


def make_diagonal_real(kind: Kind, array: Array) -> None:
    """Drop what rounding left of the imaginary parts on the diagonals of a Hermitian update."""
    if "complex" in str(array.dtype):
        kind.diagonals(array).imag[...] = 0


def by_products(kind: Kind, form: Update, backend: str | None, straight: bool = False) -> Callable[..., Matrices]:
    """The update by a product, and copies of a triangle. The product is what `multiply` plans, or (`straight`) that of
    the array library."""
    return (_Pair if form.two else _One)(kind, form, backend, straight).run


def is_straight(kind: Kind, A: Matrices, B: Matrices, form: Update, backend: str | None) -> bool:
    """Whether the array library's product answers for arrays in the memory of the CPU, as planned for it alone."""
    if stacks.is_list(A) or kind.prefers_blas or not kind.on_host_alone:
        return False
    if A.ndim == 2:
        return True
    return isinstance(GEMM.plan(A, A if B is None else B, None, backend, form.product).choice.route, Library)


class _One:
    """With one factor: the product is scaled and added where it is formed."""

    def __init__(self, kind: Kind, form: Update, backend: str | None, straight: bool) -> None:
        self.kind, self.form, self.backend, self.straight = kind, form, backend, straight

    def run(
        self, A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Matrices:
        """The update; `out` is not read where beta is zero."""
        _check_beta(out, beta)
        kind, form = self.kind, self.form
        if self.straight and alpha == 1.0 and beta == 0.0 and out is not None and out.shape[-1] == 1:
            kind.matmul(*self._factors(A, A), out)  # a triangle of one entry
            return out if not form.hermitian else self._finished(out)
        place = None if beta == 0.0 else [kind.plain(one) * 1 for one in each(out)]
        scratch = place if place is None or stacks.is_list(out) else place[0]
        product = self.multiply(A, A if B is None else B, scratch, alpha, beta)
        for one, to in zip(each(product), each(product if out is None else out), strict=True):
            if out is None:  # rounding may have told the triangles apart
                kind.mirror(one, form.lower, form.hermitian)
            else:
                kind.put_triangle(to, one, form.lower)
            if form.hermitian:
                make_diagonal_real(kind, to)
        return product if out is None else out

    def multiply(self, A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex) -> Matrices:
        """op(A) op(B)' + beta out, of stacks, lists, or two matrices."""
        if self.straight and alpha == 1.0 and out is None:
            return self.kind.matmul(*self._factors(A, B))
        if stacks.is_list(A) or A.ndim > 2 or B.ndim > 2:
            return multiply(A, B, out, alpha, beta, self.backend, self.form.product)
        return matmul(*self._factors(A, B), out=out, alpha=alpha, beta=beta, backend=self.backend)

    def _finished(self, out: Array) -> Array:
        make_diagonal_real(self.kind, out)
        return out

    def _factors(self, A: Array, B: Array) -> tuple[Array, Array]:
        how = self.form.product
        return self._turned(A, how.trans_a, how.conj_a), self._turned(B, how.trans_b, how.conj_b)

    def _turned(self, matrix: Array, trans: bool, conj: bool) -> Array:
        turned = matrix.swapaxes(-1, -2) if trans else matrix
        return self.kind.conj(turned) if conj else turned


class _Pair(_One):
    """With two factors: the product P and its transpose (adjoint) are added."""

    def run(
        self, A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Matrices:
        """The update; `out` is not read where beta is zero."""
        _check_beta(out, beta)
        kind, form = self.kind, self.form
        return add_transposes(kind, form, self.multiply(A, B, None, alpha, 0.0), out, beta)


def add_transposes(kind: Kind, form: Update, product: Matrices, out: Matrices, beta: complex) -> Matrices:
    """P + P' + beta out for the products P, which are overwritten where there is no `out`."""
    for i, half in enumerate(each(product)):
        turned = half.swapaxes(-1, -2)
        update = half + (kind.conj(turned) if form.hermitian else turned)
        if out is None:
            half[...] = update
            continue
        place = each(out)[i]
        kind.put_triangle(place, update if beta == 0.0 else update + place * beta, form.lower)
        if form.hermitian:
            make_diagonal_real(kind, place)
    return product if out is None else out


def _check_beta(out: Matrices, beta: complex) -> None:
    if out is None and beta != 0.0:
        raise ValueError("beta scales the content of out: pass out")
