"""Products of lists of NumPy matrices that differ in shape, without copies into one buffer: by a kernel that reads the
arrays where they are, or, for a few matrices, one after the other by NumPy.

What is asked about the arrays is asked by a compiled loop, or by `map`, without a step of the interpreter for every
matrix.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from operator import attrgetter, is_not
from typing import Any, NamedTuple

import numpy as np

from ...arrays.numpy_lists import Part
from ...arrays.types import Array, Matrices
from ...backends.base import Backend
from ...backends.select import ReferenceBackend, select
from ...kernels.batched.ragged_gemm import spec
from ...plan import batched_rules, pin
from ...plan.problem import DTYPES
from ...plan.route import Choice, Request
from .. import run as call
from .. import stacks
from ..plans import PLANS
from .gemm_call import Form
from .list_run import given, multiply, place

_transposed, _shape, _dtype, _ndim, _base = map(attrgetter, ("T", "shape", "dtype", "ndim", "base"))
_is_plain_place = attrgetter("flags.carray")  # rows adjacent, aligned, writable
_is_dense = attrgetter("flags.forc")  # rows or columns adjacent, without gaps
_ARRAYS, _NATIVE = {np.ndarray}, [{np.dtype(name)} for name in DTYPES]
_HOST = ("cpu", 0)
_TRIANGLES: dict[tuple[str, bool], Part] = {
    ("lower", False): "lower", ("lower", True): "unit_lower", ("upper", False): "upper", ("upper", True): "unit_upper",
}  # fmt: skip


def choice_of_loop(backend: str | None, count: int) -> Choice | None:
    """The decision for a loop over lists of so many NumPy arrays; None: a kernel multiplies them."""
    return PLANS.made(("list products", backend, count), lambda: _decide(backend, count)).choice  # type: ignore[no-any-return]


class _Decision(NamedTuple):
    choice: Choice | None


def _decide(backend: str | None, count: int) -> _Decision:
    request = Request.of(select(_HOST, backend), "gemm", may_hand_over=backend is None and not pin.pins())
    return _Decision(batched_rules.lists_one_by_one(request, count))


def _of_kernels(backend: str | None) -> Backend | None:
    """The backend whose kernels read lists in place: the CPU's, if nobody has named or pinned another."""
    chosen = None if backend is not None or pin.pins() else select(_HOST, None)
    return None if isinstance(chosen, ReferenceBackend) else chosen


def multiply_each(
    A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex, backend: str | None, form: Form
) -> list[Array] | None:
    """alpha op(A_i) op(B_i) + beta out_i for lists of NumPy arrays. None, and nothing was written: something does not
    fit, or ragged batches answer."""
    if backend is not None:
        return None
    count = len(A if stacks.is_list(A) else B)
    if choice_of_loop(backend, count) is None:
        return _by_kernel(A, B, out, (alpha, beta), backend, form)
    if not count or any(len(one) != count for one in (A, B, out) if stacks.is_list(one)):
        return None
    dtype = _common_dtype(A, B)
    if dtype is None or not (out is None or _are_places(out, dtype)):
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


def multiply_triangles_each(
    A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex, backend: str | None, form: Any
) -> list[Array] | None:
    """alpha op(A_i) B_i, or alpha B_i op(A_i), of the triangles of lists of NumPy arrays: copies of the triangles with
    zeros on the other side are multiplied by a kernel. None, and nothing was written: ragged batches answer."""
    part: Part = _TRIANGLES[form.uplo, form.unit]
    trans, conj = form.trans in "TC", form.trans in "CR"
    if form.side == "left":
        return _by_kernel(A, B, out, (alpha, 0.0), backend, Form(trans, conj), parts=(part, "whole"))
    return _by_kernel(B, A, out, (alpha, 0.0), backend, Form(False, False, trans, conj), parts=("whole", part))


def gram_each(
    A: Matrices, out: Matrices, scaling: tuple[complex, complex], uplo: str, transposed: bool, backend: str | None
) -> list[Array] | None:
    """alpha A_i A_i^T + beta out_i, or alpha A_i^T A_i + beta out_i, for a list of NumPy arrays; one triangle of `out`
    is read and written. Without `out` results are exactly symmetric. None, and nothing was written: ragged batches
    answer."""
    if backend is not None:
        return None
    form = Form(trans_a=transposed, trans_b=not transposed)
    if choice_of_loop(backend, len(A)) is None:
        return _by_kernel(A, A, out, scaling, backend, form, place_part="lower" if uplo == "L" else "upper")
    if out is not None or set(map(type, A)) != _ARRAYS or set(map(_is_dense, A)) != {True}:
        return None
    dtypes = set(map(_dtype, A))
    if dtypes not in _NATIVE or set(map(_ndim, A)) != {2}:
        return None
    # numpy.dot recognises a matrix and its transpose and computes one triangle
    turned = map(_transposed, A)
    found = list(map(np.ndarray.dot, turned, A) if transposed else map(np.ndarray.dot, A, turned))
    alpha = scaling[0]
    return found if alpha == 1.0 else _scaled(found, call.scalars(spec.problem(dtypes.pop().name, 1), alpha, 0.0), None)


def _by_kernel(
    A: Matrices, B: Matrices, out: Matrices, scaling: tuple[complex, complex], backend: str | None, form: Form,
    parts: tuple[Part, Part] = ("whole", "whole"), place_part: Part = "whole",
) -> list[Array] | None:  # fmt: skip
    """Products by one launch. None, and nothing was written: something does not fit, or there is no kernel."""
    kernels = _of_kernels(backend)
    if kernels is None or (out is None and scaling[1] != 0.0):
        return None
    a = given(A, parts[0])
    b = a if B is A and parts[0] == parts[1] else given(B, parts[1])
    to = None if out is None else place(out, place_part)
    if a is None or b is None or (out is not None and to is None):
        return None
    found = multiply(a, b, to, scaling, form, kernels)
    return out if to is not None and found is not None else found


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
