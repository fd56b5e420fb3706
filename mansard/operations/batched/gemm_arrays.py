"""`gemm` of arrays: stacks, and single matrices by what `matmul` plans for them as they are turned.

A transposed matrix begins where the matrix itself does, so that a launch on addresses serves the call as it is made. A
conjugated one does so for BLAS alone, which conjugates while it reads; an array library may copy it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Kind, Matrices
from ...backends.base import Launch
from ...plan.plan import Plan
from ...plan.problem import ITEMSIZE
from ...plan.route import REFERENCE, Library
from .. import library_launch
from .. import run as call
from ..direct import described, description
from ..operation import Operation
from ..tall_skinny.matmul import plan_matmul
from .gemm_call import GEMM, PLAIN, Form


def turned(kind: Kind, matrix: Array, transposed: bool, conjugated: bool) -> Array:
    """op(A) of a matrix or of a stack."""
    found = matrix.swapaxes(-1, -2) if transposed else matrix
    return kind.conj(found) if conjugated else found


def _plan(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Form) -> Plan:
    kind = arrays.common_kind([("A", A), ("B", B)] + ([("out", out)] if out is not None else []))
    if not len(kind.view(A, "A").shape) == len(kind.view(B, "B").shape) == 2:
        return GEMM.plan(A, B, out, backend, form)
    left, right = turned(kind, A, form.trans_a, form.conj_a), turned(kind, B, form.trans_b, form.conj_b)
    plan = plan_matmul(left, right, out, backend)
    if form == PLAIN:
        return plan
    return replace(plan, run=_path(kind, plan, A, B, out, backend, form), verify=call.make_verify(kind, A, B, out))


def _path(
    kind: Kind, plan: Plan, A: Array, B: Array, out: Array, backend: str | None, form: Form
) -> Callable[..., Matrices]:  # fmt: skip
    """The plan's path for matrices as the caller has them."""
    (trans_a, conj_a, trans_b, conj_b), multiply = form, plan.run

    def run(A: Array, B: Array, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0) -> Array:
        return multiply(turned(kind, A, trans_a, conj_a), turned(kind, B, trans_b, conj_b), out, alpha, beta)

    if not (conj_a or conj_b) or not plan.problem.is_complex:
        direct = description(multiply)
        return run if direct is None else described(run, direct._replace(general=run))
    views = [kind.view(one, name) for name, one in (("A", A), ("B", B), ("out", out)) if one is not None]
    launch = _launch(kind, views, form) if isinstance(plan.choice.route, Library) and backend != REFERENCE else None
    if launch is None:
        return run
    reaches = tuple(arrays.reach(view, ITEMSIZE[view.dtype]) for view in views)
    shape = _shape(views[0], trans_a)[0], _shape(views[1], trans_b)[1]
    place = library_launch.Place(kind, views[0].device, shape, views[0].dtype, reaches)
    return call.counted(kind, out, library_launch.fast_path(place, launch, run))


def _launch(kind: Kind, views: list[View], form: Form) -> Launch | None:
    """NumPy's BLAS for matrices of which one is conjugated; None where it cannot be called directly."""
    a, b = _seen(views[0], form.trans_a, form.conj_a), _seen(views[1], form.trans_b, form.conj_b)
    c = views[2] if len(views) == 3 else call.as_copied(a._replace(shape=(a.shape[0], b.shape[1])))
    if {a.dtype, b.dtype, c.dtype} != {a.dtype}:
        return None
    gemm = library_launch.of_matrices(a, b, c, [call.layout(view) for view in (a, b, c)])
    return library_launch.on_host(kind, gemm, views)


def _shape(view: View, transposed: bool) -> tuple[int, ...]:
    return view.shape[::-1] if transposed else view.shape


def _seen(view: View, transposed: bool, conjugated: bool) -> View:
    """The view of op(A)."""
    strides = view.strides[::-1] if transposed else view.strides
    return view._replace(
        shape=_shape(view, transposed), strides=strides, conjugated=conjugated != view.conjugated
    )  # fmt: skip


ARRAYS = Operation("gemm", _plan, in_place=True)
