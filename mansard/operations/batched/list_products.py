"""Products of the matrices of lists, one after the other by NumPy: no copies into one buffer.

What is asked about the arrays is asked by `map`, without a step of the interpreter for every matrix.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from operator import attrgetter, is_not
from typing import Any, NamedTuple

import numpy as np

from ...arrays.types import Array, Matrices
from ...backends.select import select
from ...kernels.batched.ragged_gemm import spec
from ...plan import handover, pin
from ...plan.problem import DTYPES
from ...plan.route import Choice, Request
from .. import run as call
from .. import stacks
from ..plans import PLANS

_transposed, _shape, _dtype, _ndim, _base = map(attrgetter, ("T", "shape", "dtype", "ndim", "base"))
_is_plain_place = attrgetter("flags.carray")  # rows adjacent, aligned, writable
_is_dense = attrgetter("flags.forc")  # rows or columns adjacent, without gaps
_ARRAYS, _NATIVE = {np.ndarray}, [{np.dtype(name)} for name in DTYPES]


def choice_of_loop(backend: str | None) -> Choice | None:
    """The decision for a loop over lists of NumPy arrays; None: they are gathered for a kernel."""
    return PLANS.made(("list products", backend), lambda: _decide(backend)).choice  # type: ignore[no-any-return]


class _Decision(NamedTuple):
    choice: Choice | None


def _decide(backend: str | None) -> _Decision:
    request = Request.of(select(("cpu", 0), backend), "gemm", may_hand_over=backend is None and not pin.pins())
    return _Decision(handover.lists_one_by_one(request))


def multiply_each(
    A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex, backend: str | None, form: Any
) -> list[Array] | None:
    """alpha op(A_i) op(B_i) + beta out_i for lists of NumPy arrays, by numpy.dot, which takes two thirds of the time of
    numpy.matmul for small matrices. None, and nothing was written: another loop, or something does not fit."""
    lists = [one for one in (A, B, out) if stacks.is_list(one)]
    count = len(lists[0])
    if backend is not None or not count or [len(one) for one in lists] != [count] * len(lists):
        return None
    dtype = _common_dtype(A, B)
    if dtype is None or not (out is None or _are_places(out, dtype)) or choice_of_loop(backend) is None:
        return None
    scaling = None if alpha == 1.0 and beta == 0.0 else call.scalars(spec.problem(dtype.name, 1), alpha, beta)
    left, right = _op(A, form.trans_a, form.conj_a, count), _op(B, form.trans_b, form.conj_b, count)
    try:
        found = list(map(np.ndarray.dot, left, right))
    except ValueError:  # sizes that do not fit
        return None
    if out is not None and list(map(_shape, out)) != list(map(_shape, found)):
        return None
    return _scaled(found, scaling or (1.0, 0.0, 0.0, 0.0), out)


def gram_each(A: Matrices, alpha: complex, transposed: bool, backend: str | None) -> list[Array] | None:
    """alpha A_i A_i^T, or alpha A_i^T A_i, for a list of NumPy arrays without gaps. numpy.dot recognises a matrix and
    its transpose and computes one triangle, so that results are exactly symmetric. None: something else answers."""
    if backend is not None or set(map(type, A)) != _ARRAYS or set(map(_is_dense, A)) != {True}:
        return None
    dtypes = set(map(_dtype, A))
    if dtypes not in _NATIVE or set(map(_ndim, A)) != {2} or choice_of_loop(backend) is None:
        return None
    turned = map(_transposed, A)
    found = list(map(np.ndarray.dot, turned, A) if transposed else map(np.ndarray.dot, A, turned))
    if alpha == 1.0:
        return found
    return _scaled(found, call.scalars(spec.problem(dtypes.pop().name, 1), alpha, 0.0), None)


def _common_dtype(A: Matrices, B: Matrices) -> Any:
    """The one dtype of plain NumPy matrices and of matrices or vectors beside them; None: there are others."""
    a, b = (one if stacks.is_list(one) else (one,) for one in (A, B))
    if set(map(type, a)) != _ARRAYS or set(map(type, b)) != _ARRAYS:
        return None
    dtypes = {*map(_dtype, a), *map(_dtype, b)}
    if dtypes not in _NATIVE or set(map(_ndim, a)) != {2} or set(map(_ndim, b)) not in ({1}, {2}):
        return None
    return dtypes.pop()


def _are_places(out: Matrices, dtype: Any) -> bool:
    """Whether these are different arrays of the dtype, rows adjacent and writable, with memory of their own."""
    if not stacks.is_list(out) or set(map(type, out)) != _ARRAYS or len(set(map(id, out))) != len(out):
        return False
    is_plain = set(map(_dtype, out)) == {dtype} and set(map(_is_plain_place, out)) == {True}
    return is_plain and not any(map(is_not, map(_base, out), repeat(None)))  # no array is a view of another one


def _op(operand: Matrices, transposed: bool, conjugated: bool, count: int) -> Iterable[Array]:
    """op of every matrix of a list; one array that serves all is repeated."""
    found: Iterable[Array] = operand if stacks.is_list(operand) else repeat(operand, count)
    found = map(_transposed, found) if transposed else found
    return map(np.conj, found) if conjugated else found


def _scaled(found: list[Array], scaling: tuple[float, ...], out: list[Array] | None) -> list[Array]:
    """alpha times the products, and beta times what is in `out`; copied there where it is given."""
    is_complex = found[0].dtype.kind == "c"
    alpha, beta = (complex(*scaling[i : i + 2]) if is_complex else scaling[i] for i in (0, 2))
    for i, one in enumerate(found) if alpha != 1.0 or out is not None else ():
        if alpha != 1.0:
            one *= alpha
        if out is not None:
            out[i][...] = one + beta * out[i] if beta else one
    return found if out is None else out
