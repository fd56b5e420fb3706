"""`plan("cholesky" | "lu" | "qr", A, ...)`: factorizations held, and explained, before they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...arrays.types import Kind, Matrices
from ...backends.select import select
from ...errors import UnsupportedProblem
from ...plan.plan import Plan
from .. import run as call
from .. import stacks
from ..ragged import Ragged
from .face import check_matrices
from .kernel import KernelRun, family_of
from .places import overlaps
from .plan import plan_factor
from .ragged_plan import plan_ragged
from .systems import common_lead, lead_of
from .task import Sizes, Task, broadcast
from .tiny import as_int32, plan_with_factors


@dataclass
class FactorizationPlan(Plan):
    """A plan whose work is not always that of one kernel; calling it gives the parts of the result, `info` last."""


def task_of(operation: str, want: str | None = None, *, upper: bool = False, pivot: bool = True) -> Task:
    """By the words of `plan`."""
    task = Task(operation, want or ("raw" if operation == "qr" else "factor"), upper, pivot)
    try:
        assert task.parts
    except KeyError:
        raise ValueError(f"want={want!r} is nothing that {operation} gives") from None
    return task


def plan_tiny(kind: Kind, task: Task, A: Matrices, pivots: Matrices, B: Matrices, backend: str | None) -> Plan | None:
    """The one launch that solves by factors, to be explained; None where there is none, or operands are lists."""
    if any(stacks.is_list(one) or isinstance(one, Ragged) for one in (A, pivots, B)):
        return None
    lead = common_lead(("a", "b"), A, B)
    if lead_of(A) not in (lead, ()) or (task.want == "cholesky" and lead_of(B) != lead_of(A)):
        return None
    A, B = (broadcast(kind, one, (*lead, *one.shape[-2:])) for one in (A, B))
    outs = {} if pivots is None else {"PIVOTS": as_int32(kind, pivots)}
    found = plan_with_factors(kind, task, A, B, outs, backend)
    if found is None or found.kernel is None:
        return None
    kernel = found.kernel
    run = call.counted(kind, None, lambda A, B=None, out=None, alpha=1.0, beta=0.0: found.run(A, B, outs)["X"])
    verify = call.make_verify(kind, A, B, None)
    return FactorizationPlan(
        kernel.problem, found.choice, kernel.backend, kernel.kernel, run, verify, kernel.launch
    )  # fmt: skip


def plan_factorization(
    operation: str, A: Matrices, B: Matrices, out: Matrices, backend: str | None, **options: Any
) -> Plan:
    """A plan of what `operation` wants of the matrices of A, and of right-hand sides B."""
    task, family = task_of(operation, **options), family_of(operation)
    if family is None:
        raise UnsupportedProblem(f"{operation}: there are no kernels of this name")
    if isinstance(A, Ragged):
        return plan_ragged(task, A, B, out, backend)
    kind = stacks.common_kind((("a", A), ("b", B), ("out", out)))
    if kind is None:
        raise ValueError("an empty list says nothing about its matrices: there is nothing to plan")
    stacks.described(kind, A, "A")
    if (B is not None) != (task.want == "solve"):
        raise TypeError(f"{operation}: right-hand sides (B) and want='solve' go together")
    check_matrices(A, "a", square=operation == "cholesky")
    outs = {} if out is None else {task.parts[0]: out}
    found = plan_factor(task, kind, A, B, outs, backend)
    a, b = stacks.operand_of(kind, A, "a"), None if B is None else stacks.operand_of(kind, B, "b")
    chosen = select(a.view.device, backend)
    sizes = Sizes(a.rows, a.columns, 0 if b is None else b.columns)
    given = {"A": a} | ({} if b is None else {"B": b})
    described = found.kernel or KernelRun(kind, task, sizes, given, {}, chosen)

    def run(
        A: Matrices, B: Matrices = None, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Matrices:
        if (alpha, beta) != (1.0, 0.0):
            raise ValueError(f"{operation} has neither alpha nor beta: leave them out")
        outs = {} if out is None else {task.parts[0]: out}
        if overlaps(kind, A, B, outs):
            raise ValueError("out overlaps A or B: the result needs memory of its own, or exactly A's")
        parts = found.run(A, B, outs)
        return tuple(parts[name] for name in task.parts)

    verify = call.make_verify(kind, A, B, out)
    return FactorizationPlan(
        described.problem, found.choice, chosen, described.kernel, call.counted(kind, out, run), verify,
        described.launch,
    )  # fmt: skip
