"""From a batch to its two-sided factorization: the plan, and its execution by kernels or by a library."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from ....arrays import kinds as arrays
from ....arrays.types import Array, Kind
from ....backends.select import select
from ....kernels.factor import jacobi
from ....plan.route import Choice, Nothing
from ... import stacks
from ...batched.gemm_call import multiply
from ...plans import PLANS
from ...stacks import Operand
from ..lapack import shares_of
from ..own_routines import is_tame
from ..plan import factor
from ..quick import quick as quick_factor
from ..quick import quick_key
from ..task import Found, stacked, zeros
from ..task import Task as FactorTask
from . import householder, loops, reductions
from . import library as by_library
from .chunked import ChunkedRun, reduced
from .routes import decide, problem_of
from .shapes import Shape, shape_of, sparing
from .task import Sizes, Task, adjoint, nothing

Way = Callable[[Array], Found]
_OWN = 16  # rows or columns from which PyTorch's routines are faster than NumPy's loops (Xeon, 2026-11-19)


class TwoSidedPlan(NamedTuple):
    """How the parts are computed, which square problem that takes, and who answers it."""

    run: Way
    shape: Shape
    choice: Choice
    kernels: ChunkedRun | None = None


def compute(task: Task, kind: Kind, A: Array, backend: str | None = None) -> Found:
    """The parts of the task's result, by a plan made before where there is one. A is a stack or a list; parts of lists
    are stacks."""
    return planned(task, kind, A, backend).run(A)


def planned(task: Task, kind: Kind, A: Array, backend: str | None = None) -> TwoSidedPlan:
    """The plan made before for matrices like those of A, or a new one."""
    key = ("two-sided", task, backend, kind, stacks.signature(kind, A))
    plan: TwoSidedPlan = PLANS.made(key, lambda: plan_two_sided(task, kind, A, backend))
    if not stacks.is_list(A):
        run = plan.run
        PLANS.keep(quick_key(task, backend, kind, A, None, None), lambda A, B, out: run(A))
    return plan


def quick(task: Task, backend: str | None, A: Array) -> Found | None:
    """The parts, if a call with an array like this was planned before."""
    return quick_factor(task, backend, A)  # type: ignore[return-value]  # kept by `planned`, which knows the parts


def plan_two_sided(task: Task, kind: Kind, A: Array, backend: str | None) -> TwoSidedPlan:
    """A plan for matrices like those of A."""
    a = stacks.operand_of(kind, A, "a")
    sizes, chosen = Sizes(a.rows, a.columns), select(a.view.device, backend)
    if 0 in (*a.shape, *sizes):
        family = problem_of(task, a.view.dtype, sizes, prod(a.shape), chosen.device.backend == "cpu")[0]
        choice = Choice(family, Nothing("a size is zero: nothing to compute"), "empty")
        return TwoSidedPlan(partial(_nothing, kind, task, sizes, a), Shape("direct", "a size is zero"), choice)
    choice, method, layout = decide(task, a, chosen, kind, backend)
    needs_square = method is not None or ("D" in task.parts and a.view.device[0] != "cpu")
    shape = shape_of(task, sizes, prod(a.shape), chosen.device.backend != "cuda", needs_square, _widest(method, a))
    if shape.name == "adjoint":
        return TwoSidedPlan(partial(_by_adjoint, kind, task, backend), shape, choice)
    if shape.name == "triangle":
        return TwoSidedPlan(partial(_by_triangle, kind, task, backend), shape, choice)
    if shape.name == "padded":
        return TwoSidedPlan(partial(_by_padding, kind, task, backend), shape, choice)
    if method is None or layout is None:
        return TwoSidedPlan(_by_library(kind, task.for_library, a), shape, choice)
    kernels = ChunkedRun(kind, task, method, a, chosen, layout)
    if "D" in task.parts:
        return TwoSidedPlan(lambda A: reduced(kind, task, kernels.run(A)), shape, choice, kernels)
    return TwoSidedPlan(kernels.run, shape, choice, kernels)


def _widest(method: Task | None, a: Operand) -> int:
    """Rows up to which columns of zeros may make matrices square: kernels with a matrix per SIMD lane bear them."""
    if method is None or method.driver != "lanes":
        return 0
    problem = jacobi.spec.problem(a.view.dtype, 1, 1, want=method.want, method="any")
    return jacobi.spec.largest_on_cpu(problem)


def _nothing(kind: Kind, task: Task, sizes: Sizes, a: Operand, A: Array) -> Found:
    return nothing(kind, task, sizes, a.shape, a.view.dtype, A[0] if stacks.is_list(A) else A)


def _by_library(kind: Kind, task: Task, a: Operand) -> Way:
    """The array library's routine: for small stacks in the CPU's memory NumPy's loop, bound here."""
    general = partial(_library, kind, task, a)
    closely = a.view.device[0] != "cpu" or a.listed or "D" in task.parts
    if closely or _is_shared(a):
        return general
    if _is_left_to_own(kind, task, a):
        return partial(_own, kind, task, by_library.routine(kind, task), general)
    loop = loops.bound(task, a.view.dtype, Sizes(a.rows, a.columns))
    if loop is None:
        return general
    on_host, download, upload = kind.on_host_alone, kind.download, kind.upload

    def run(A: Array) -> Found:
        found = loop(A if on_host else download(A))
        if found is None:
            return general(A)
        return found if on_host else {part: upload(one, A) for part, one in found.items()}

    return run


def _is_shared(a: Operand) -> bool:
    """Whether threads share the matrices of a stack in the CPU's memory."""
    return len(shares_of((*a.shape, a.rows, a.columns), by_library.ONE_CORE)) > 1


def _is_left_to_own(kind: Kind, task: Task, a: Operand) -> bool:
    """Whether tensors in the CPU's memory are left to PyTorch: NumPy's loops are as fast for tiny matrices alone."""
    return not kind.on_host_alone and task.driver == "auto" and max(a.rows, a.columns) >= _OWN and not _is_shared(a)


def _own(kind: Kind, task: Task, routine: Callable[..., tuple[Array, ...]], general: Way, A: Array) -> Found:
    """The array library's routine for tensors without bad entries; `general` looks at others closely."""
    if not is_tame(kind, A):
        return general(A)
    try:
        made = routine(task, A)
    except by_library.errors(kind):  # an iteration did not converge
        return general(A)
    info = kind.upload(np.zeros(tuple(A.shape[:-2]), np.int32), A)
    return {**dict(zip(task.parts[:-1], made, strict=True)), "INFO": info}


def _library(kind: Kind, task: Task, a: Operand, A: Array) -> Found:
    A = stacked(kind, A)
    is_on_cpu, is_reduction = a.view.device[0] == "cpu", "D" in task.parts
    if not is_on_cpu and is_reduction:
        return householder.answer(kind, task, A)
    if not is_on_cpu or (not is_reduction and _is_left_to_own(kind, task, a)):
        return by_library.answer(kind, task, A)
    here = kind.download(A)
    found = (
        reductions.answer(task, here) if is_reduction else by_library.answer(arrays.kind_of(here, "a"), task, here)
    )  # fmt: skip
    return {part: kind.upload(np.asarray(one), A) for part, one in found.items()}


def _by_adjoint(kind: Kind, task: Task, backend: str | None, A: Array) -> Found:
    """A = U S V^H from A^H = V S U^H. A bidiagonal matrix is a lower one then, as LAPACK's is."""
    found = compute(task, kind, adjoint(kind, stacked(kind, A)), backend)
    if "U" in found:
        found["U"], found["VH"] = (kind.plain(adjoint(kind, found[part])) for part in ("VH", "U"))
    return found


def _by_triangle(kind: Kind, task: Task, backend: str | None, A: Array) -> Found:
    """A = Q R, R = U' S V^H, U = Q U'. With `full`, the columns of Q beyond those of A complete U."""
    A = stacked(kind, A)
    by = sparing(kind, A, backend)
    if "U" not in task.parts:
        return compute(task, kind, factor(FactorTask("qr", "r"), kind, A, None, None, by)["F"], backend)
    made = factor(FactorTask("qr", "complete" if task.full else "reduced"), kind, A, None, None, by)
    Q, columns = made["Q"], made["F"].shape[-1]
    found = compute(task._replace(full=False), kind, made["F"][..., :columns, :], backend)
    U = multiply(Q[..., :columns], found["U"], None, 1.0, 0.0, by)
    if task.full:
        Q[..., :columns] = U
    return found | {"U": Q if task.full else U}


def padded(kind: Kind, A: Array) -> Array:
    """The stack with columns of zeros that make its matrices square."""
    *lead, M, N = A.shape
    square = zeros(kind, (*lead, M, M), kind.view(A, "a").dtype, A)
    square[..., :N] = A
    return square


def _by_padding(kind: Kind, task: Task, backend: str | None, A: Array) -> Found:
    """[A 0] = U diag(S, 0) diag(V, I)^H: values of the padding come last, and its columns of U complete those of A."""
    A = stacked(kind, A)
    M, N = A.shape[-2:]
    found = compute(task._replace(full=False), kind, padded(kind, A), backend)
    info = found["INFO"]
    parts = {"W": found["W"][..., :N], "INFO": kind.module.where(info > M - N, info - (M - N), info)}
    if "U" in task.parts:
        parts |= {"U": found["U"] if task.full else found["U"][..., :N], "VH": found["VH"][..., :N, :N]}
    return {part: kind.plain(one) for part, one in parts.items()}


def singular_of_hermitian(kind: Kind, task: Task, A: Array, backend: str | None) -> Found:
    """Singular values and vectors of Hermitian matrices from their eigenvalues: |w| descending, signs in VH."""
    vectors = "U" in task.parts
    found = compute(Task("eigh" if vectors else "eigvalsh", task.upper, driver=task.driver), kind, A, backend)
    module, W = kind.module, found["W"]
    size = module.abs(W)
    order = (-size).argsort(-1)
    values = kind.take_along(size, order, -1)
    if not vectors:
        return {"W": values, "INFO": found["INFO"]}
    sign = kind.take_along(module.where(W < 0, -module.ones_like(W), module.ones_like(W)), order, -1)
    U = kind.take_along(found["Z"], order[..., None, :], -1)
    return {"U": U, "W": values, "VH": kind.plain(adjoint(kind, U * sign[..., None, :])), "INFO": found["INFO"]}
