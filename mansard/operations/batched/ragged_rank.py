"""Rank-k and rank-2k updates of ragged batches: products, of which one triangle counts."""

from __future__ import annotations

from functools import partial

from ...arrays.types import Array, Matrices
from .. import stacks
from ..batch_checks import through_jax
from ..ragged import Ragged
from ..ragged_indices import Indices
from ..ragged_layout import Layout
from ..ragged_lists import ragged_of, scatter
from .factors import scaled_ragged
from .gemm_call import Form
from .list_products import gram_each
from .ragged_call import check_kinds, check_result, multiply_ragged


def rank_k(
    a: Ragged, b: Ragged | None, out: Ragged | None, alpha: complex, beta: complex, options: tuple[str, bool, bool],
    backend: str | None,
) -> Ragged:  # fmt: skip
    """alpha op(a_i) op(a_i)' + beta out_i; with b alpha op(a_i) op(b_i)', its transpose (adjoint) and beta out_i.
    `options`: the triangle, whether op transposes, and whether ' conjugates.

    Without `out` the result is exactly symmetric (Hermitian); of `out` only the triangle is read and written.
    """
    uplo, transposed, hermitian = options
    names, other = (("a", "a"), a) if b is None else (("a", "b"), b)
    if b is not None:
        _check_alike(a, b)
    if out is not None:
        a._renew("a")
        check_kinds(names, a, other, out)
        if len(out) != len(a):
            raise ValueError(f"out is {out!r} and a {a!r}: one for each is needed")
        if out._view.readonly:
            raise ValueError("out is read-only")
    form = Form(transposed, transposed and hermitian, not transposed, not transposed and hermitian)
    product = multiply_ragged(a, other, None, alpha, 0.0, backend, form, names)
    if b is not None:
        _add_transposes(product, hermitian)
    if out is not None:
        check_result(out, product.layout)
    result = product if out is None else out
    if out is None:
        _mirror(product, uplo, hermitian)
    else:
        triangle = _triangle(out.layout, uplo).beside(out)
        chosen = product.buffer[_triangle(product.layout, uplo).beside(out)]
        out.buffer[triangle] = chosen if beta == 0.0 else chosen + out.buffer[triangle] * _factor(out, beta)
    if hermitian:
        _make_diagonals_real(result)
    if out is not None and out._kind.written is not None:
        out._kind.written((out.buffer,))
    return result


def _check_alike(a: Ragged, b: Ragged) -> None:
    """Both factors of an update have the same shapes."""
    if len(a) != len(b):
        raise ValueError(f"a is {a!r} and b {b!r}: one for each is needed")
    for i, (one, other) in enumerate(zip(a.shapes, b.shapes, strict=True)):
        if one != other:
            raise ValueError(f"a[{i}] has shape {one} and b[{i}] {other}: both need the same")


def _add_transposes(product: Ragged, hermitian: bool) -> None:
    """Add its transpose (adjoint) to each square matrix."""
    entries = Indices.of(product.layout)
    turned = product.buffer[entries.mirrored(product.layout).beside(product)]
    product.buffer[entries.beside(product)] += product._kind.conj(turned) if hermitian else turned


def rank_k_of_factors(
    a: Ragged, out: Ragged | None, alpha: Array, beta: Array, options: tuple[str, bool, bool], backend: str | None
) -> Ragged:
    """`rank_k` with one alpha and one beta for each matrix."""
    uplo, _, hermitian = options
    product = rank_k(a, None, None, 1.0, 0.0, options, backend)
    result = scaled_ragged(product, alpha, beta, out, Indices.of if out is None else partial(_triangle, uplo=uplo))
    if hermitian:
        _make_diagonals_real(result)
    return result


def _make_diagonals_real(batch: Ragged) -> None:
    """Drop what rounding left of the imaginary parts on the diagonals."""
    if "complex" in str(batch.dtype):
        diagonal = Indices.of(batch.layout).part("diagonal", lambda row, column: row == column).beside(batch)
        batch.buffer[diagonal] = batch.buffer[diagonal].real + 0j


def rank_k_lists(
    a: Matrices, b: Matrices, out: Matrices, alpha: complex, beta: complex, options: tuple[str, bool, bool],
    backend: str | None,
) -> list[Matrices]:  # fmt: skip
    """`rank_k` for lists of matrices that differ in shape; the arrays of `out` have been checked."""
    kind, (uplo, transposed, hermitian) = stacks.kind_of(a, "a"), options
    if kind.immutable:
        run = partial(rank_k_lists, out=None, alpha=alpha, beta=beta, options=options, backend=backend)
        return through_jax(kind, ("a", "b"), a, b, out, run)  # type: ignore[no-any-return]
    if b is None and not (hermitian and "complex" in str(a[0].dtype)):
        found = gram_each(a, out, (alpha, beta), uplo, transposed, backend)
        if found is not None:
            return found if out is None else out
    place = None if out is None else ragged_of(kind, out, "out")
    other = None if b is None else ragged_of(kind, b, "b")
    made = rank_k(ragged_of(kind, a, "a"), other, place, alpha, beta, options, backend)
    return made.to_list() if out is None else scatter(kind, out, made)


def _factor(out: Matrices, beta: complex) -> complex:
    """beta as a number that does not change the dtype of `out`."""
    beta = complex(beta)
    if "complex" in str(out.dtype):
        return beta
    if beta.imag:
        raise TypeError(f"beta must be real for {out.dtype} matrices")
    return beta.real


def _triangle(layout: Layout, uplo: str) -> Indices:
    """Entries of one triangle, with the diagonal."""
    return Indices.of(layout).part(
        ("triangle", uplo), lambda row, column: (row >= column) if uplo == "L" else (row <= column)
    )


def _mirror(product: Ragged, uplo: str, hermitian: bool) -> None:
    """One triangle becomes the other; rounding may have told them apart."""
    chosen = Indices.of(product.layout).part(
        ("strict", uplo), lambda row, column: (row > column) if uplo == "L" else (row < column)
    )
    values = product.buffer[chosen.beside(product)]
    values = product._kind.conj(values) if hermitian else values
    product.buffer[chosen.mirrored(product.layout).beside(product)] = values
