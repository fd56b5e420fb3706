"""`plan("eigh" | "svd" | "pinv" | ..., A)`: two-sided factorizations held, and explained, before they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import prod

from ....arrays.types import Array, Kind, Matrices
from ....backends.select import select
from ....kernels.factor.two_sided import model
from ....machine.machine import known
from ....plan.plan import Plan
from ....plan.problem import Options
from ....plan.route import OWN_ROUTINE, Choice, Library
from ... import run as call
from ... import stacks
from ...batched.gemm_call import Form, plan_gemm
from ...operation import Planner
from ...steps import Steps, StepsPlan, held
from ...steps import plan_lstsq as plan_by_qr
from ..face import check_matrices, is_vector
from ..hold import plan_factorization
from ..systems import common_lead
from ..task import broadcast, stacked
from .derived import SPECTRAL
from .plan import plan_two_sided
from .routes import problem_of
from .shapes import sparing
from .task import HERMITIAN, Sizes, Task

_ADJOINT = Form(True, True)


@dataclass
class TwoSidedPlan(StepsPlan):
    """A plan of several operations, and why they are these: what becomes of rectangular matrices, which kernels."""

    reasons: tuple[str, ...] = ()
    modelled: tuple[str, str, int] | None = None  # function, dtype and rows whose limit is known

    def explain(self) -> str:
        """The reasons, the limit of the arithmetic and which phase sets it, then what each step runs and why."""
        bound = model.lines(*self.modelled, known(self.backend.device)) if self.modelled else []
        told = [f"steps    {reason}" for reason in self.reasons] + [f"bound    {line}" for line in bound]
        return "\n".join([*told, super().explain()])


def planner(name: str) -> Planner:
    """The planner of a public function."""
    if name == "procrustes":
        return plan_procrustes
    task_of = _TASKS[name.removesuffix("_ex")]

    def plan(A: Matrices, B: None, out: Matrices, backend: str | None, form: Options) -> Plan:
        kind = _kind_of(name, A, out)
        hermitian = bool(form.get("hermitian")) or task_of(form).want in HERMITIAN
        check_matrices(A, "a", square=hermitian)
        reasons: list[str] = []
        steps = _without_values(name, form, kind, A, backend) or steps_of(task_of(form), kind, A, backend, reasons)
        made = _held(name, steps, reasons, call.make_verify(kind, A, None, None, ("a", "b")), backend, form)
        a, want = stacks.operand_of(kind, A, "a"), task_of(form).want
        if name.removesuffix("_ex") in model.FUNCTIONS and 0 not in (a.rows, a.columns):
            made.modelled = want, a.view.dtype, min(a.rows, a.columns)
        return made

    return plan


def _without_values(name: str, form: Options, kind: Kind, A: Matrices, backend: str | None) -> Steps:
    """The steps of norms and condition numbers that are no function of singular values; none for anything else."""
    if name == "cond" and form.get("p") not in (None, 2, -2):
        return [("inv", plan_factorization("lu", A, None, None, backend, want="inverse"))]
    if name != "norm" or form.get("ord") in SPECTRAL:
        return []
    a = stacks.operand_of(kind, A, "x")
    chosen, sizes = select(a.view.device, backend), Sizes(a.rows, a.columns)
    on_cpu = chosen.device.backend == "cpu"
    family, problem = problem_of(Task("svdvals"), a.view.dtype, sizes, prod(a.shape), on_cpu)
    choice = Choice(family, Library(OWN_ROUTINE, "sums of entries: no singular values are needed"), "rule")
    return [("norm", Plan(problem, choice, chosen, None, _unused, _unused))]


def _kind_of(name: str, A: Matrices, out: Matrices) -> Kind:
    if out is not None:
        raise TypeError(f"{name} has no out: leave it out and use the result")
    kind: Kind | None = stacks.common_kind((("a", A),))
    if kind is None:
        raise ValueError("an empty list says nothing about its matrices: there is nothing to plan")
    stacks.described(kind, A, "a")
    return kind


def _held(
    name: str, steps: Steps, reasons: list[str], verify: Callable[..., None], backend: str | None, form: Options
) -> TwoSidedPlan:
    made = held("mansard.linalg", name, steps, verify, backend, form)
    assert isinstance(made, StepsPlan)
    return TwoSidedPlan(**{field.name: getattr(made, field.name) for field in fields(made)}, reasons=tuple(reasons))


def steps_of(task: Task, kind: Kind, A: Matrices, backend: str | None, reasons: list[str]) -> Steps:
    """The plans of a factorization's steps; `reasons` receives why they are these."""
    a, found = stacks.operand_of(kind, A, "a"), plan_two_sided(task, kind, A, backend)
    like, dtype = (A[0] if stacks.is_list(A) else A), a.view.dtype
    if found.shape.name != "direct":
        reasons.append(found.shape.reason)
    if found.shape.name == "adjoint":
        return steps_of(task, kind, kind.allocate((*a.shape, a.columns, a.rows), dtype, like), backend, reasons)
    if found.shape.name == "padded":
        square = kind.allocate((*a.shape, a.rows, a.rows), dtype, like)
        return steps_of(task._replace(full=False), kind, square, backend, reasons)
    if found.shape.name == "triangle":
        vectors = "U" in task.parts
        want = ("complete" if task.full else "reduced") if vectors else "r"
        triangle = kind.allocate((*a.shape, a.columns, a.columns), dtype, like)
        by = sparing(kind, stacked(kind, A), backend)
        steps: Steps = [("qr", plan_factorization("qr", A, None, None, by, want=want))]
        steps += steps_of(task._replace(full=False), kind, triangle, backend, reasons)
        if vectors:
            Q = kind.allocate((*a.shape, a.rows, a.columns), dtype, like)
            steps.append(("gemm", plan_gemm(Q, triangle, None, by)))
        return steps
    chosen = select(a.view.device, backend)
    if found.kernels is not None:
        reasons.append(f"{found.choice.reason}; {found.kernels.description}")
        return [
            (step.problem.operation, Plan(step.problem, step.choice, chosen, step.kernel, _unused, _unused))
            for step in found.kernels.chains[0].steps
        ]
    on_cpu = chosen.device.backend == "cpu"
    problem = problem_of(task, dtype, Sizes(a.rows, a.columns), prod(a.shape), on_cpu)[1]
    return [(task.want, Plan(problem, found.choice, chosen, None, _unused, _unused))]


def _unused(*_: object, **__: object) -> None:
    raise AssertionError("the public function runs the steps")


# ---- tasks by the options of public functions -------------------------------------------------------------


def _hermitian(want: str) -> Callable[[Options], Task]:
    return lambda form: Task(want, str(form.get("UPLO", "L")).upper() == "U", driver=form.get("driver", "auto"))


def _singular(want: str, full: bool = False) -> Callable[[Options], Task]:
    def task_of(form: Options) -> Task:
        vectors, driver = want == "svd" and form.get("compute_uv", True), form.get("driver", "auto")
        if form.get("hermitian"):
            return Task("eigh" if vectors else "eigvalsh", driver=driver)
        if not vectors:
            return Task("svdvals", driver=driver)
        return Task("svd", full=bool(form.get("full_matrices", full)), driver=driver)

    return task_of


def _reduction(task: Task, short: str, option: str) -> Callable[[Options], Task]:
    def task_of(form: Options) -> Task:
        wanted = task if form.get(option, True) else task._replace(want=short)
        return wanted._replace(upper=str(form.get("UPLO", "L")).upper() == "U")

    return task_of


_TASKS: dict[str, Callable[[Options], Task]] = {
    "eigh": _hermitian("eigh"),
    "eigvalsh": _hermitian("eigvalsh"),
    "svd": _singular("svd", True),
    "svdvals": _singular("svdvals"),
    "tridiagonalize": _reduction(Task("tridiagonalize"), "tridiagonal", "compute_q"),
    "bidiagonalize": _reduction(Task("bidiagonalize"), "bidiagonal", "compute_uv"),
    "pinv": _singular("svd"),
    "polar": _singular("svd"),
    "matrix_rank": _singular("svdvals"),
    "cond": _singular("svdvals"),
    "norm": _singular("svdvals"),
}


# ---- functions of two batches -----------------------------------------------------------------------------


def plan_procrustes(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """A^H B, its singular vectors, and their product."""
    kind = _kind_of("procrustes", A, out)
    first, second = (stacked(kind, one) for one in (A, B))
    view, columns = kind.view(first, "a"), first.shape[-1]
    lead = common_lead(("a", "b"), first, second)
    square = kind.allocate((*lead, columns, columns), view.dtype, first)
    steps: Steps = [("gemm", plan_gemm(first, second, None, backend, _ADJOINT))]
    steps += steps_of(Task("svd"), kind, square, backend, [])
    steps.append(("gemm", plan_gemm(square, square, None, backend)))
    return held("mansard.linalg", "procrustes", steps, call.make_verify(kind, A, B, None, ("a", "b")), backend, form)


def plan_lstsq(A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Options) -> Plan:
    """Least squares: by QR, or (the default) by singular values and two products."""
    if form.get("driver", "svd") == "qr":
        return plan_by_qr(A, B, out, backend, form)
    kind = _kind_of("lstsq", A, out)
    right = B[:, None] if is_vector(B) else B
    lead = common_lead(("a", "b"), A, right)
    a, b = (broadcast(kind, stacked(kind, one), (*lead, *stacked(kind, one).shape[-2:])) for one in (A, right))
    (M, N), dtype = a.shape[-2:], kind.view(a, "a").dtype
    reasons: list[str] = []
    steps = steps_of(Task("svd"), kind, a, backend, reasons)
    if 0 not in a.shape and 0 not in b.shape:
        left, rows = (kind.allocate((*lead, size, min(M, N)), dtype, a) for size in (M, N))
        steps.append(("gemm", plan_gemm(left, b, None, backend, _ADJOINT)))
        steps.append(("gemm", plan_gemm(rows, _right(kind, left, b), None, backend)))
    return _held("lstsq", steps, reasons, call.make_verify(kind, A, B, None, ("a", "b")), backend, form)


def _right(kind: Kind, left: Array, b: Array) -> Array:
    """Right-hand sides after the product with U^H."""
    return kind.allocate((*left.shape[:-2], left.shape[-1], b.shape[-1]), kind.view(b, "b").dtype, b)
