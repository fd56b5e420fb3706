"""From batches of small products to a plan: validation, the problem, and what is launched."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...arrays import kinds as arrays
from ...arrays.types import Kind, Matrices
from ...backends.base import Backend, Launch
from ...backends.select import select
from ...codegen.geometry import Kernel
from ...kernels.batched import gemm
from ...plan import dispatch
from ...plan.plan import Plan
from ...plan.problem import Problem
from ...plan.route import Choice, Nothing, Request
from .. import operation, stacks
from .. import run as call
from ..batch_checks import check_dtypes, check_out, is_empty_list, is_unreadable
from ..operation import Operation
from ..stacks import Batch, Operand
from .gemm_run import BatchRun


class Form(NamedTuple):
    """What is done to the operands before they are multiplied."""

    trans_a: bool = False
    conj_a: bool = False
    trans_b: bool = False
    conj_b: bool = False


PLAIN = Form()  # one object for all callers: the native launcher finds plans by its address


def multiply(
    A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex, backend: str | None, form: Form = PLAIN
) -> Matrices:  # fmt: skip
    """alpha A B + beta out for stacks and lists."""
    return operation.call(GEMM, A, B, out, alpha, beta, backend, form)


def plan_gemm(
    A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Form = PLAIN, handover: bool = True
) -> Plan:  # fmt: skip
    """Plan A B for stacks and lists. Nothing is written before every argument has been checked. `handover` leaves wide
    products to the array library, unless a record or the caller's choice of a backend speaks for ours.
    """
    kind = _kind(A, B, out)
    if kind is None or is_empty_list(A) or is_empty_list(B):
        raise ValueError("an empty list says nothing about its matrices: there is nothing to plan")
    a = stacks.operand_of(kind, A, "A", form.trans_a, "row")
    b = stacks.operand_of(kind, B, "B", form.trans_b, "column")
    given = [("A", a), ("B", b)] + ([("out", _out_of(kind, out, a, b))] if out is not None else [])
    _check(given)
    shape = stacks.broadcast(a, b)
    if out is not None:
        fits = (*given[2][1].shape, given[2][1].rows, given[2][1].columns) == (*shape, a.rows, b.columns)
        wanted = (*shape, *((a.rows,) * (not a.vector)), *((b.columns,) * (not b.vector)))
        check_out(kind, out, given[2][1], fits, wanted)
    chosen = select(arrays.same_device([(name, operand.view) for name, operand in given]), backend)
    a, b = (operand._replace(loose=chosen.name == "cpu") for operand in (a, b))
    copies = tuple(is_unreadable(operand, chosen.name) for operand in (a, b))
    read = [operand.copied() if copied else operand for operand, copied in zip((a, b), copies, strict=True)]
    indirect = out is not None and is_unreadable(given[2][1], chosen.name)
    c = stacks.result_of(a, b, shape) if out is None or indirect else given[2][1]
    batch = stacks.batch_of(read[0], read[1], c, shape)
    problem = stacks.problem_of(batch, (form.conj_a, form.conj_b))
    batches = kind.batches_matmul if handover and backend is None else None
    launch, choice, kernel = _prepare(problem, batch, chosen, batches)
    run = BatchRun(
        kind, problem, chosen, batch, launch, form, (copies[0], copies[1], indirect), tuple(one for _, one in given)
    )  # fmt: skip
    fast = call.counted(kind, out, run.fast)
    verify = call.make_verify(kind, A, B, out)
    return Plan(problem, choice, chosen, kernel, fast, verify, launch, run.fast != run.general)


def _prepare(
    problem: Problem, batch: Batch, backend: Backend, library_batches: bool | None
) -> tuple[Launch | None, Choice, Kernel | None]:
    """The launch (None: the array library answers), what was chosen and why, and the kernel. Wide products are left to
    the array library unless `library_batches` is None, or a record speaks for a kernel."""
    if 0 in (*batch.shape, problem.M, problem.N, problem.K):
        return None, Choice(gemm.FAMILY, Nothing("nothing to multiply: C = beta C"), "empty"), None
    is_free = library_batches is not None
    request = Request.of(
        backend, "gemm", library_batches=library_batches, may_hand_over=is_free, spares_compiling=is_free
    )  # fmt: skip
    return call.prepare(gemm.emit, problem, backend, batch.strides, choice=dispatch.decide(problem, request))


def _kind(A: Matrices, B: Matrices, out: Matrices) -> Any:  # Kind | None
    """The one array library of all arguments; None if there are only empty lists."""
    return stacks.common_kind((("A", A), ("B", B), ("out", out)))


def _check(given: list[tuple[str, Operand]]) -> None:
    """One supported dtype, and sizes that fit."""
    check_dtypes(given)
    a, b = given[0][1], given[1][1]
    if a.columns != b.rows:
        raise ValueError(f"A has {a.columns} columns and B {b.rows} rows: both need the same number")


def _out_of(kind: Kind, out: Matrices, a: Operand, b: Operand) -> Operand:
    """`out`, with the dimensions that one-dimensional operands take from it."""
    if stacks.is_list(out) or not (a.vector or b.vector):
        return stacks.operand_of(kind, out, "out")
    view, lost = kind.view(out, "out"), int(a.vector) + int(b.vector)
    split = len(view.shape) - (2 - lost)
    if split < 0:
        raise ValueError(f"out has shape {view.shape}, and the result {2 - lost} dimensions at least")
    sizes, steps = list(view.shape[split:]), list(view.strides[split:])
    for at, vector in ((0, a.vector), (1, b.vector)):
        if vector:
            sizes.insert(at, 1)
            steps.insert(at, 1)
    return stacks.matrices_of(view, tuple(sizes), tuple(steps), split)


def _plan_handed_over(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Form) -> Plan:
    return plan_gemm(A, B, out, backend, form, handover=True)


GEMM = Operation("gemm", _plan_handed_over)
