"""Batches of matrices times vectors: from the arguments to a plan, and the run of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...arrays import kinds as arrays
from ...arrays.types import Array, Kind, Matrices
from ...backends.base import Backend, Launch
from ...backends.select import select
from ...codegen.geometry import Kernel
from ...kernels.batched import gemv
from ...plan import dispatch
from ...plan.plan import Plan
from ...plan.problem import Problem
from ...plan.route import Choice, Nothing, Request
from .. import operation, stacks
from .. import run as call
from ..batch_checks import check_dtypes, check_out, is_empty_list, is_unreadable
from ..operation import Operation
from ..ragged import Ragged
from ..ragged_lists import ragged_of, special
from ..stacks import Batch, Operand
from .gemm_call import Form
from .gemm_run import BatchRun
from .list_products import multiply_each
from .ragged_call import multiply_ragged

_FORMS = {"N": Form(), "T": Form(trans_a=True), "C": Form(trans_a=True, conj_a=True)}
_PLAIN = _FORMS["N"]


def form_of(trans: str = "N") -> Form:
    """What BLAS's option means."""
    if trans not in _FORMS:
        raise ValueError(f"trans={trans!r} is not one of 'N', 'T' and 'C'")
    return _FORMS[trans]


def apply(
    A: Matrices, x: Matrices, out: Matrices, alpha: complex, beta: complex, backend: str | None, form: Form = _PLAIN
) -> Matrices:  # fmt: skip
    """alpha op(A) x + beta out for stacks and lists."""
    return operation.call(GEMV, A, x, out, alpha, beta, backend, form)


def plan_gemv(A: Matrices, x: Matrices, out: Matrices, backend: str | None, form: Form = _PLAIN) -> Plan:
    """A plan of op(A) x for stacks and lists. Nothing is written before every argument has been checked."""
    kind = _kind(A, x, out)
    if kind is None or is_empty_list(A) or is_empty_list(x):
        raise ValueError("an empty list says nothing about its matrices: there is nothing to plan")
    a, b = stacks.operand_of(kind, A, "a", form.trans_a), vectors_of(kind, x, "x")
    given = [("a", a), ("x", b)] + ([("out", vectors_of(kind, out, "out"))] if out is not None else [])
    _check(given, form)
    shape = stacks.broadcast(a, b, ("a", "x"))
    if out is not None:
        wanted = (*shape, a.rows)
        check_out(kind, out, given[2][1], (*given[2][1].shape, given[2][1].rows) == wanted, wanted)
    chosen = select(arrays.same_device([(name, operand.view) for name, operand in given]), backend)
    a, b = (operand._replace(loose=chosen.name == "cpu") for operand in (a, b))
    copies = tuple(is_unreadable(operand, chosen.name) for operand in (a, b))
    read = [operand.copied() if copied else operand for operand, copied in zip((a, b), copies, strict=True)]
    indirect = out is not None and is_unreadable(given[2][1], chosen.name)
    c = stacks.result_of(a, b, shape) if out is None or indirect else given[2][1]
    batch = stacks.batch_of(read[0], read[1], c, shape)
    problem = gemv.spec.of_products(stacks.problem_of(batch, (form.conj_a, False)))
    launch, choice, kernel = _prepare(problem, batch, chosen, backend is None)
    run = VectorRun(
        kind, problem, chosen, batch, launch, form, (copies[0], copies[1], indirect), tuple(one for _, one in given)
    )  # fmt: skip
    fast = call.counted(kind, out, run.fast)
    verify = call.make_verify(kind, A, x, out)
    return Plan(problem, choice, chosen, kernel, fast, verify, launch, run.fast != run.general)


def vectors_of(kind: Kind, array: Matrices, name: str) -> Operand:
    """Vectors along the last dimension of an array, or of a list; as operands they are matrices of one column."""
    if stacks.is_list(array):
        return _list_of(kind, array, name)
    view = kind.view(array, name)
    if not view.shape:
        raise ValueError(f"{name} is a single number: a vector or a stack of vectors is needed")
    sizes, steps = (view.shape[-1], 1), (view.strides[-1], 1)
    return stacks.matrices_of(view, sizes, steps, len(view.shape) - 1)._replace(vector=True)


def _list_of(kind: Kind, array: Sequence[Array], name: str) -> Operand:
    views = stacks.described(kind, array, name)
    first = views[0]
    if len(first.shape) != 1:
        raise ValueError(f"{name}[0] has shape {first.shape}: a list holds vectors (one dimension)")
    for i, view in enumerate(views):
        if view.shape != first.shape:
            raise ValueError(f"{name}[{i}] has shape {view.shape} and {name}[0] {first.shape}: one length is needed")
        if view.dtype != first.dtype:
            raise TypeError(f"{name}[0] has dtype {first.dtype} and {name}[{i}] {view.dtype}: convert one of them")
        if view.device != first.device:
            arrays.same_device([(f"{name}[0]", first), (f"{name}[{i}]", view)])
    return Operand(
        first, first.shape[0], 1, first.strides[0], 1, (len(views),), (0,), listed=True, vector=True,
        aligned=all(view.address % 16 == 0 for view in views),
        uniform=all((view.strides, view.conjugated) == (first.strides, first.conjugated) for view in views),
    )  # fmt: skip


def _prepare(
    problem: Problem, batch: Batch, backend: Backend, is_free: bool
) -> tuple[Launch | None, Choice, Kernel | None]:
    """The launch (None: the array library answers), what was chosen and why, and the kernel."""
    if 0 in (*batch.shape, problem.M, problem.K):
        return None, Choice(gemv.FAMILY, Nothing("nothing to multiply: y = beta y"), "empty"), None
    request = Request.of(backend, "gemv", may_hand_over=is_free, spares_compiling=is_free)
    return call.prepare(gemv.emit, problem, backend, batch.strides, choice=dispatch.decide(problem, request))


def _kind(A: Matrices, x: Matrices, out: Matrices) -> Any:  # Kind | None
    """The one array library of all arguments; None if there are only empty lists."""
    return stacks.common_kind((("a", A), ("x", x), ("out", out)))


def _check(given: list[tuple[str, Operand]], form: Form) -> None:
    """One supported dtype, and sizes that fit."""
    check_dtypes(given)
    a, x = given[0][1], given[1][1]
    if a.columns != x.rows:
        lines = "rows (it is transposed)" if form.trans_a else "columns"
        raise ValueError(f"a has {a.columns} {lines} and x {x.rows} entries: both need the same number")


class VectorRun(BatchRun):
    """Runs a plan as for products; x and the result lack the dimension of length one that they have as matrices."""

    emit = gemv.emit
    names = ("a", "x")

    def _vendor(self, A: Matrices, x: Matrices, out: Matrices, alpha: complex, beta: complex) -> Matrices:
        """The array library's own product; also the answer to empty problems."""
        if self.listed:
            A, x = (_one_each(one, self.batch.shape[0], 2 - side) for side, one in enumerate((A, x)))
        return super()._vendor(A, x, out, alpha, beta)

    def _multiplier(self) -> Callable[[Array, Array], Array] | None:
        matmul = self.kind.matmul
        return None if any(self.form) else lambda A, x: matmul(A, x[..., None])[..., 0]

    def _product(self, A: Matrices, x: Matrices, alpha: complex) -> Matrices:
        A, x = self._turned(A, x)
        product = self.kind.matmul(A, x[..., None])[..., 0]
        return product if alpha == 1.0 else product * alpha


def _one_each(operand: Matrices, count: int, dimensions: int) -> Matrices:
    """A list of as many as there are products."""
    if stacks.is_list(operand):
        return operand
    if len(operand.shape) == dimensions:
        return [operand] * count
    return [operand[i if len(operand) > 1 else 0] for i in range(count)]


_NAMES = ("a", "x")


def _multiply_columns(
    A: Matrices, x: Matrices, out: Matrices, alpha: complex, beta: complex, backend: str | None, form: Form
) -> Ragged:  # fmt: skip
    """The product of a Ragged with a Ragged of columns, a matrix, a vector for all, or a list of vectors."""
    if stacks.is_list(x):
        x = _columns_of(x, "x")
    elif not isinstance(x, Ragged) and arrays.kind_of(x, "x") and len(x.shape) == 1:
        x = x[:, None]
    return multiply_ragged(A, x, out, alpha, beta, backend, form, _NAMES)


def _columns_of(vectors: Sequence[Array], name: str) -> Matrices:
    """A list of vectors as a Ragged of columns, in one buffer."""
    kind = stacks.kind_of(vectors, name)
    if kind is None or kind.immutable:
        what = "an empty list" if kind is None else "a list of JAX arrays"
        raise TypeError(f"{name} is {what}: beside a Ragged, pass vectors of its library")
    return ragged_of(kind, vectors, name)


_SPECIAL = special(_multiply_columns, _NAMES, multiply_each)
GEMV = Operation("gemv", plan_gemv, _NAMES, special=_SPECIAL)
