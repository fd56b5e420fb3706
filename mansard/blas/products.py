"""Products: `gemm`, `syrk`, `herk`."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..arrays import kinds as arrays
from ..arrays.types import Array, Matrices
from ..operations import operation, stacks
from ..operations.batched.factors import are_numbers, is_number, scaled_each
from ..operations.batched.gemm_arrays import ARRAYS, turned
from ..operations.batched.gemm_call import PLAIN, Form, multiply
from ..operations.batched.interleaved import Interleaved
from ..operations.batched.ragged_call import multiply_special
from ..operations.batched.ragged_rank import rank_k, rank_k_lists, rank_k_of_factors
from ..operations.batched.rank_call import RANK_K, update
from ..operations.batched.rank_products import Update, add_transposes, each, make_diagonal_real
from ..operations.ragged import Ragged
from ..operations.ragged_lists import check_once, differ
from ..operations.tall_skinny.matmul import matmul
from .places import check, check_options, check_places, kind_of

_NUMBERS = frozenset((float, int, complex))
_FORMS = {"N": (False, False), "T": (True, False), "C": (True, True)}  # transposed, conjugated


def gemm(
    a: Matrices,
    b: Matrices,
    *,
    alpha: complex | Array = 1.0,
    beta: complex | Array = 0.0,
    trans_a: str = "N",
    trans_b: str = "N",
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """alpha op(a) op(b) + beta out, for every matrix of a batch.

    Parameters
    ----------
    a, b : arrays (..., rows, columns) whose leading dimensions broadcast as in `numpy.matmul`, lists of matrices of
        one shape, or `Ragged` or `Interleaved` batches, with which one matrix may go; float32, float64, complex64 or
        complex128, any strides
    alpha, beta : factors, one number each or one per matrix: an array that broadcasts with the leading dimensions of
        the result, which costs another pass over it. With beta = 0 the content of `out` is not read
    trans_a, trans_b : "N": the matrices as they are, "T": transposed, "C": transposed and conjugated; none of them
        copies anything
    out : array or list that receives the result; it shares no memory with a or b
    backend : as for `matmul`

    Returns
    -------
    An array of the same kind, on the same device; `out` if it was given; of lists, a list.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.arange(8.0).reshape(2, 2, 2)
    >>> ms.blas.gemm(a, a, trans_b="T")
    array([[[ 1.,  3.],
            [ 3., 13.]],
    <BLANKLINE>
           [[41., 59.],
            [59., 85.]]])
    >>> out = np.ones((2, 2, 2))
    >>> ms.blas.gemm(a, np.eye(2), alpha=2.0, beta=-1.0, out=out) is out
    True
    >>> out[1]
    array([[ 7.,  9.],
           [11., 13.]])
    """
    if not (type(alpha) in _NUMBERS and type(beta) in _NUMBERS) and not are_numbers(alpha, beta):
        product = gemm(a, b, trans_a=trans_a, trans_b=trans_b, backend=backend)
        return scaled_each(product, alpha, beta, out)
    form = _form(trans_a, trans_b)
    if arrays.known_kind(a) is not None and type(b) is type(a) and min(a.ndim, b.ndim) > 1:
        return operation.call(ARRAYS, a, b, out, alpha, beta, backend, form)
    special = multiply_special(a, b)
    if special is not None:
        return special(a, b, out, alpha, beta, backend, form)
    kinds = check(a, "a"), check(b, "b")
    if None in kinds or kinds[0].immutable or not (_is_matrix(a) and _is_matrix(b)):
        return multiply(a, b, out, alpha, beta, backend, form)
    a, b = turned(kinds[0], a, *_FORMS[trans_a]), turned(kinds[1], b, *_FORMS[trans_b])
    return matmul(a, b, out=out, alpha=alpha, beta=beta, backend=backend)


def syrk(
    a: Matrices,
    *,
    alpha: complex | Array = 1.0,
    beta: complex | Array = 0.0,
    uplo: str = "L",
    trans: str = "N",
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """alpha a a^T + beta out (`trans` = "T": alpha a^T a + beta out), for every matrix of a batch.

    Parameters
    ----------
    a : array (..., n, k), list of matrices, `Ragged` or `Interleaved`; with "T", (..., k, n)
    alpha, beta : factors, one number each or one per matrix, as for `gemm`
    uplo : the triangle of `out` that is written: "L" or "U"; the other one is neither read nor written
    out : array (..., n, n) or list. Without it the whole matrix is returned, exactly symmetric

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.blas.syrk(np.arange(4.0).reshape(1, 2, 2), out=np.zeros((1, 2, 2)))
    array([[[ 1.,  0.],
            [ 3., 13.]]])
    """
    return update_triangle(a, None, (alpha, beta), (uplo, trans, "T"), out, backend)


def herk(
    a: Matrices,
    *,
    alpha: complex | Array = 1.0,
    beta: complex | Array = 0.0,
    uplo: str = "L",
    trans: str = "N",
    out: Matrices = None,
    backend: str | None = None,
) -> Matrices:
    """alpha a a^H + beta out (`trans` = "C": alpha a^H a + beta out), for every matrix of a batch.

    As `syrk`; alpha and beta are real, and so is the diagonal of the result. Without `out` the result is exactly
    Hermitian.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> ms.blas.herk(np.array([[[1.0 + 2.0j], [2.0]]]))
    array([[[5.+0.j, 2.+4.j],
            [2.-4.j, 4.+0.j]]])
    """
    if not (type(alpha) is float and type(beta) is float):
        for name, factor in (("alpha", alpha), ("beta", beta)):
            if not is_real(factor):
                raise TypeError(f"{name} must be real: the result would not be Hermitian")
    return update_triangle(a, None, (alpha, beta), (uplo, trans, "C"), out, backend)


def is_real(factor: Any) -> bool:
    """Whether a factor is real, an array of them by its dtype."""
    if is_number(factor):
        return not complex(factor).imag
    return not np.iscomplexobj(factor) if isinstance(factor, list | tuple) else "complex" not in str(factor.dtype)


def update_triangle(
    a: Any, b: Any, factors: tuple[Any, Any], options: tuple[str, str, str], out: Any, backend: str | None
) -> Any:
    """The update with factors a and b; `b` is None where there is one. `options`: uplo, trans, and what trans may be
    beside "N"."""
    alpha, beta = factors
    form = _update_of(*options, b is not None)
    plain = type(alpha) in _NUMBERS and type(beta) in _NUMBERS
    if plain and (arrays.known_kind(a) is not None or isinstance(a, Interleaved)):
        return update(a, b, out, alpha, beta, backend, form)
    if isinstance(a, Interleaved):
        raise TypeError("alpha and beta are one number each for an Interleaved: pass stacks or lists")
    if not (plain or are_numbers(alpha, beta)):
        several = _rank_k_of_factors if b is None else partial(_rank_2k_of_factors, b)
        return several(a, factors, options, out, backend)
    check_options(*options, beta, out)
    kind = kind_of(a, "a")
    if any(isinstance(one, Ragged) for one in (a, b, out)) or differ(a) or differ(b):
        return _rank_k_of_ragged(kind, a, b, factors, options, out, backend)
    return update(a, b, out, alpha, beta, backend, form)


@lru_cache(maxsize=16)
def _update_of(uplo: str, trans: str, other: str, two: bool) -> Update:
    check_options(uplo, trans, other, 0.0, None)
    return Update(uplo == "L", trans != "N", other == "C", two)


def _rank_k_of_ragged(
    kind: Any, a: Any, b: Any, factors: tuple[Any, Any], options: tuple[str, str, str], out: Any, backend: str | None
) -> Any:
    """The update of a Ragged, or of a list whose matrices differ in shape; `b` is None with one factor."""
    uplo, trans, other = options
    if b is not None and (isinstance(a, Ragged), stacks.is_list(a)) != (isinstance(b, Ragged), stacks.is_list(b)):
        raise TypeError(f"a is a {type(a).__name__} and b a {type(b).__name__}: both need the same form of batch")
    if out is not None and not (kind is not None and kind.immutable):  # which is refused below
        verify = partial(check_places, kind, a, trans, out)
        if stacks.is_list(a) and stacks.is_list(out):
            check_once(kind, ("rank k", trans), a, out, verify)
        else:
            verify()
    is_ragged = isinstance(a, Ragged) or isinstance(out, Ragged)
    answer: Any = rank_k if is_ragged else rank_k_lists
    return answer(a, b, out, *factors, (uplo, trans != "N", other == "C"), backend)


def _rank_k_of_factors(
    a: Any, factors: tuple[Any, Any], options: tuple[str, str, str], out: Any, backend: str | None
) -> Any:
    """The product with one alpha and one beta for each matrix, which cost another pass."""
    uplo, trans, other = options
    check_options(uplo, trans, other, 0.0, out)
    if isinstance(a, Ragged):
        return rank_k_of_factors(a, out, *factors, (uplo, trans != "N", other == "C"), backend)
    product = update_triangle(a, None, (1.0, 0.0), options, None, backend)
    return _placed(a, product, factors, options, out)


def _placed(a: Any, product: Any, factors: tuple[Any, Any], options: tuple[str, str, str], out: Any) -> Any:
    """alpha_i P_i + beta_i out_i of the updates P, which are whole matrices; of `out` one triangle is written."""
    if out is None:
        return scaled_each(product, *factors, None)
    uplo, trans, other = options
    kind = kind_of(a, "a")
    check_places(kind, a, trans, out)
    copies = [kind.plain(one) * 1 for one in each(out)]  # of which one triangle is taken
    scaled_each(product, *factors, copies if stacks.is_list(out) else copies[0])
    for one, to in zip(copies, each(out), strict=True):
        kind.put_triangle(to, one, uplo == "L")
        if other == "C":
            make_diagonal_real(kind, to)
    if kind.written is not None:
        kind.written(each(out))
    return out


def _rank_2k_of_factors(
    b: Any, a: Any, factors: tuple[Any, Any], options: tuple[str, str, str], out: Any, backend: str | None
) -> Any:
    """The update with one alpha and one beta for each matrix, by a product."""
    uplo, trans, other = options
    kind = kind_of(a, "a")
    if any(isinstance(one, Ragged) for one in (a, b, out)) or (kind is not None and kind.immutable):
        what = "a Ragged" if kind is None or not kind.immutable else f"{kind.name} arrays"
        text = f"alpha and beta are one number each for the rank-2k update of {what}"
        raise TypeError(f"{text}: scale its matrices first")
    check_options(uplo, trans, other, 0.0, out)
    trans_a, trans_b = ("N", other) if trans == "N" else (other, "N")
    product = gemm(a, b, alpha=factors[0], trans_a=trans_a, trans_b=trans_b, backend=backend)
    whole = add_transposes(kind, _update_of(*options, True), product, None, 0.0)
    return _placed(a, whole, (1.0, factors[1]), options, out)


def _is_matrix(operand: Any) -> bool:
    return not stacks.is_list(operand) and operand.ndim == 2


@lru_cache(maxsize=16)
def _form(trans_a: str, trans_b: str) -> Form:
    found = Form(*_option("trans_a", trans_a), *_option("trans_b", trans_b))
    return PLAIN if found == PLAIN else found


def _option(name: str, value: str) -> tuple[bool, bool]:
    if value not in _FORMS:
        raise ValueError(f"{name}={value!r} is not one of 'N', 'T' and 'C'")
    return _FORMS[value]


_TRANS, _UPLO = ("N", "T", "C"), ("L", "U")
operation.enters(gemm, ARRAYS, PLAIN, options={"trans_a": _TRANS, "trans_b": _TRANS}, form_of=_form)
for _function, _other in ((syrk, "T"), (herk, "C")):
    operation.enters(
        _function, RANK_K, _update_of("L", "N", _other, False), options={"uplo": _UPLO, "trans": ("N", _other)},
        form_of=partial(lambda other, uplo, trans: _update_of(uplo, trans, other, False), _other),
    )  # fmt: skip
