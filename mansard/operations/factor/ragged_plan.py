"""`plan("lu_factor" | "solve" | ..., a)` of ragged batches: which kernels their matrices share, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ...arrays.types import Array, Matrices
from ...backends.base import Backend
from ...backends.select import select
from ...kernels.factor.ragged_factor import spec as ragged_spec
from ...plan import dispatch
from ...plan.plan import Plan
from ...plan.problem import ITEMSIZE, Options, Problem
from ...plan.route import Choice, Request
from ..ragged import Ragged
from ..ragged_classes import SizeClass, divide
from .kernel import family_of
from .sorted import bounds
from .task import Task

_HOME = "mansard.linalg"  # of the public functions, which a plan calls


class ClassPlan(NamedTuple):
    """Matrices that share a kernel: which they are, their problem, and what answers it."""

    title: str
    problem: Problem
    choice: Choice


@dataclass
class RaggedPlan(Plan):
    """A plan of a ragged batch: a problem and a choice for each size class. Kernels compile with the first call."""

    classes: tuple[ClassPlan, ...] = ()

    def explain(self) -> str:
        """The classes of sizes, why matrices are padded or not, and what runs for each class."""
        device = self.backend.device.name
        lines = [f"{self.choice.family.name} of a ragged batch", f"device   {device} ({self.backend.name})"]
        for one in self.classes:
            lines += [one.title, f"  runs     {one.choice}", f"  because  {one.choice.origin}: {one.choice.reason}"]
        return "\n".join(lines)


def plan_ragged(task: Task, A: Ragged, B: Matrices, out: Matrices, backend: str | None) -> Plan:
    """A plan of what `task` wants of the matrices of A, and of right-hand sides B, for batches of these sizes."""
    if not len(A):
        raise ValueError("a batch without matrices: there is nothing to plan")
    chosen, function = select(A._view.device, backend), _function(task, backend)
    classes = tuple(_on_cpu(task, chosen, A) if chosen.name == "cpu" else _on_gpu(task, chosen, A, B, backend is None))
    expected = [_described(one) for one in (A, B)]

    def run(
        A: Matrices, B: Matrices = None, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Matrices:
        if (alpha, beta) != (1.0, 0.0):
            raise ValueError(f"{task.family} has neither alpha nor beta: leave them out")
        found = function(*(one for one in (A, B) if one is not None), **({} if out is None else {"out": out}))
        return found if isinstance(found, tuple) else (found,)

    def verify(A: Matrices, B: Matrices, out: Matrices) -> None:
        for name, one, wanted in zip("AB", (A, B), expected, strict=True):
            if _described(one) != wanted:
                raise ValueError(f"{name} is not like the batch that was planned for: the same sizes, dtype and device")

    return RaggedPlan(classes[0].problem, classes[0].choice, chosen, None, run, verify, classes=classes)


def _described(operand: Matrices) -> object:
    return (operand.shapes, operand.dtype, operand.device) if isinstance(operand, Ragged) else operand


def _function(task: Task, backend: str | None) -> Callable[..., Matrices]:
    """The public function that gives the task's parts, with its options."""
    named: dict[tuple[str, str], tuple[str, Options]] = {
        ("cholesky", "factor"): ("cholesky_ex", {"upper": task.upper}),
        ("cholesky", "solve"): ("solve_ex", {"assume_a": "pos"}),
        ("lu", "factor"): ("lu_factor_ex", {"pivot": task.pivot}),
        ("lu", "solve"): ("solve_ex", {"pivot": task.pivot}),
        ("lu", "inverse"): ("inv_ex", {"pivot": task.pivot}),
        ("lu", "determinant"): ("det", {}),
        ("lu", "logdet"): ("slogdet", {}),
    }
    name, options = named.get((task.family, task.want), ("qr", {"mode": task.want}))
    function: Any = getattr(import_module(_HOME), name)
    return lambda *given, **places: function(*given, backend=backend, **options, **places)


def _on_cpu(task: Task, backend: Backend, A: Ragged) -> Iterator[ClassPlan]:
    problem = ragged_spec.problem(A._view.dtype, len(A), method=task.family)
    title = f"{len(A)} matrices of all sizes: one kernel, which reads the size of every matrix"
    yield ClassPlan(title, problem, dispatch.choose(problem, backend.device))


def _on_gpu(task: Task, backend: Backend, A: Ragged, B: Matrices, may_hand_over: bool) -> Iterator[ClassPlan]:
    rows, columns, _ = A.layout.host()
    right = np.zeros_like(rows) if B is None else B.layout.host()[1]
    request = Request.of(
        backend, task.family, may_hand_over=may_hand_over, may_divide=True
    )  # fmt: skip
    for one in _classes(task, np.stack([rows, columns, right], 1), A._view.dtype):
        problem = _problem(task, A._view.dtype, one)
        size = " x ".join(map(str, one.bounds[:2])) + (f", {one.bounds[2]} right-hand sides" if B is not None else "")
        how = f"{'padded to' if one.is_padded else 'of'} {size}"
        title = f"{len(one.members)} matrices {how}: {one.reason}"
        yield ClassPlan(title, problem, dispatch.decide(problem, request))


def _classes(task: Task, sizes: Array, dtype: str) -> list[SizeClass]:
    """As `factor_ragged` divides the batch: Cholesky's kernels read the order of every matrix."""
    limits = bounds(dtype)
    if (task.family, task.want) != ("cholesky", "factor") or sizes[:, 0].max() > limits[-1]:
        return divide(sizes, ITEMSIZE[dtype])
    which, reason = np.searchsorted(limits, sizes[:, 0]), "the kernel reads the order of every matrix up to this size"
    return [
        SizeClass((int(limits[i]), int(limits[i]), 0), np.flatnonzero(which == i), False, reason)
        for i in np.unique(which)[::-1]
    ]


def _problem(task: Task, dtype: str, one: SizeClass) -> Problem:
    (M, N, right), family = one.bounds, family_of(task.family)
    traits: Options = {"pivot": task.pivot} if task.family == "lu" else {}
    if task.family == "cholesky":
        traits = {"uplo": "upper" if task.upper else "lower"}
        traits |= {"stack_a": "ragged"} if task.want == "factor" and "reads the order" in one.reason else {}
    sizes = (N,) if task.family == "cholesky" else (M, N)
    made: Problem = family.spec.problem(dtype, *sizes, len(one.members), NRHS=right, want=task.want, **traits)
    return made
