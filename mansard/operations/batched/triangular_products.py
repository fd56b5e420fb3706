"""Products with batches of triangular matrices: who multiplies, one kernel, BLAS, or `gemm` with a copy of the
triangles."""

from __future__ import annotations

from functools import partial

from ...arrays.types import Array, Kind, Matrices
from ...backends.base import Backend
from ...kernels.batched import trmm
from ...kernels.batched.trsm import lapack
from ...plan import dispatch, libraries, pin
from ...plan.plan import Plan
from ...plan.problem import Problem
from ...plan.route import Choice, Library, Nothing, Request, Steps
from .. import operation, stacks
from .. import run as call
from ..operation import Operation
from ..ragged_lists import special
from ..stacks import Batch
from . import gemm_call
from .interleaved_calls import also_interleaved, shape_of_right
from .list_products import multiply_triangles_each
from .ragged_triangular import multiply_triangles
from .triangular_call import Prepared, Triangle, kind_of, plan_by
from .triangular_library import by_lapack
from .triangular_run import is_same

_PLAIN = Triangle()


def multiply(
    A: Matrices, B: Matrices, out: Matrices, alpha: complex, backend: str | None, form: Triangle = _PLAIN
) -> Matrices:
    """alpha op(A) B, or alpha B op(A), of a triangle A."""
    return operation.call(TRMM, A, B, out, alpha, 0.0, backend, form)


def plan_trmm(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Triangle = _PLAIN) -> Plan:
    """A plan of the product. Nothing is written before every argument has been checked."""
    plan = plan_by(A, B, out, backend, form, _prepare, routine="trmm")
    route = plan.choice.route
    if not isinstance(route, Library) or route.name == libraries.ONE_BY_ONE:
        return plan
    return _plan_of_copies(A, B, out, backend, form, plan.choice)


def _prepare(
    kind: Kind, problem: Problem, batch: Batch, backend: Backend, asked: str | None, form: Triangle
) -> Prepared:
    """The launch, what was chosen and why, the kernel; or, without a launch, BLAS, or nobody."""
    problem = Problem("trmm", problem.dtype, problem.sizes, problem.traits)
    if 0 in (*batch.shape, problem.N, problem.NRHS):
        return None, Choice(trmm.FAMILY, Nothing("nothing to multiply"), "empty"), None, None
    request = Request.of(
        backend, "trmm", may_hand_over=asked is None and not pin.pins(), spares_compiling=asked is None
    )
    choice = dispatch.decide(problem, request)
    launch, choice, kernel = call.prepare(trmm.emit, problem, backend, batch.strides, choice=choice)
    if launch is not None:
        return launch, choice, kernel, partial(_by_new_array, asked, form)
    given = problem.replace(trans=form.trans)  # the arrays carry their own conjugation
    return None, choice, None, by_lapack(given, lapack.multiply_each) if request.on_cpu else None


def _by_new_array(asked: str | None, form: Triangle, A: Matrices, X: Matrices, alpha: complex) -> None:
    """Multiply X in place, by way of a new array."""
    product = multiply(A, X, None, alpha, asked, form)
    for place, value in zip(X, product, strict=True) if stacks.is_list(X) else ((X, product),):
        place[...] = value


def _plan_of_copies(
    A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Triangle, chosen: Choice
) -> Plan:
    """A plan of the product with a copy of A with zeros on the other side, made anew in every call, and gemm."""
    kind, trans, conj, left = kind_of(A, B, out), form.trans in "TC", form.trans in "CR", form.side == "left"
    how = gemm_call.Form(trans, conj) if left else gemm_call.Form(False, False, trans, conj)

    def pair(A: Matrices, B: Matrices) -> tuple[Matrices, Matrices]:
        copies = [masked(kind, one, form.uplo, form.unit) for one in (A if stacks.is_list(A) else (A,))]
        triangles = copies if stacks.is_list(A) else copies[0]
        return (triangles, B) if left else (B, triangles)

    def run(A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0) -> Matrices:
        if out is None or not is_same(kind, B, out):
            return gemm_call.multiply(*pair(A, B), out, alpha, 0.0, backend, how)
        product = gemm_call.multiply(*pair(A, B), None, alpha, 0.0, backend, how)
        for place, value in zip(out, product, strict=True) if stacks.is_list(out) else ((out, product),):
            place[...] = value
        return out

    held = gemm_call.plan_gemm(*pair(A, B), None, backend, how)
    text = f"a copy of a with zeros on the other side of its diagonal (one more pass over it), then {held.choice}"
    choice = Choice(held.choice.family, Steps("copy", text, f"{chosen.reason}; {held.choice.reason}"), chosen.origin)
    return Plan(held.problem, choice, held.backend, held.kernel, run, call.make_verify(kind, A, B, out))


def masked(kind: Kind, A: Matrices, uplo: str, unit: bool) -> Matrices:
    """Whatever lies on the other side of the diagonal, NaN too, is zero in the copy."""
    strides = kind.view(A, "a").strides[:-2]
    if 0 not in strides and not unit:
        return kind.triangle(A, uplo == "lower")
    once = A[tuple([slice(0, 1) if stride == 0 else slice(None) for stride in strides])]  # what broadcasting repeats
    copy = kind.triangle(once, uplo == "lower")
    if unit:
        kind.diagonals(copy)[...] = 1
    return kind.module.broadcast_to(copy, A.shape)


def _multiply_views(
    A: Array, B: Array, out: Array, alpha: complex, beta: complex, backend: str | None, form: Triangle
) -> Array:
    """`multiply` for the views of an interleaved batch."""
    return multiply(A, B, out, alpha, backend, form)


_SPECIAL = special(multiply_triangles, each=multiply_triangles_each)
TRMM = Operation("trmm", plan_trmm, ("a", "b"), special=also_interleaved(_multiply_views, shape_of_right, _SPECIAL))
