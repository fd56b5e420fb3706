"""`ms.tune`: the same calls as the one-shot functions, measured instead of just run."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedProblem
from ..operations.planning import plan
from ..operations.plans import PLANS
from ..operations.steps import StepsPlan
from ..plan.route import Library
from ..records.trials import ENERGY, GOALS, TIME
from . import sparse
from .cases import CASES
from .energy import tune_energy
from .session import TuningResult, tune_problem


def tune(
    operation: str,
    A: Any,
    B: Any = None,
    *,
    strategy: str = "top",
    limit: int = 24,
    goal: str = TIME,
    **options: Any,
) -> TuningResult | sparse.Tuned | list[TuningResult]:
    """Measure candidates for these arrays on their device and remember the winner for later calls.

    What is measured are the kernels behind the operation: `tune("matmul", A, B)` tunes the family that answers for
    these shapes, which the result names (`result.problem`). Every candidate is checked against the reference before it
    is timed. Later calls use the winner; plans made before keep their kernel.

    Parameters
    ----------
    operation, A, B : as for `ms.plan`; sparse matrices are tuned as by `ms.sparse.tune`
    strategy : "top" measures the candidates that the model ranks first, "exhaustive" all of them
    limit : candidates that are measured; seconds each, most of them for the compiler
    goal : "time", or "energy": the fastest candidates are measured again by joules per call, net of idle power, where
        the device has an energy counter. Winners of both goals are stored; calls use those for energy if the
        environment has `MANSARD_GOAL=energy`
    options : as for the operation

    Returns
    -------
    The tuning result, whose `winner` is the fastest trial; of sparse matrices what `ms.sparse.tune` returns. A list
    of results for an operation that is made of several steps.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> V = np.ones((100_000, 16))
    >>> print(ms.tune("gram", V, limit=8))  # doctest: +SKIP
    """
    if goal not in GOALS:
        raise ValueError(f"goal={goal!r} is not one of {', '.join(GOALS)}")
    if operation in ("matvec", "spmv", "matrix_powers", "powers"):
        if goal != TIME:
            raise UnsupportedProblem(f"{operation}: formats of sparse matrices are tuned for time alone, not {goal!r}")
        return _tune_sparse(operation, A, B, limit, options)
    held = plan(operation, A, B, **options)
    steps = [step for _, step in held.steps] if isinstance(held, StepsPlan) else [held]
    for route in (step.choice.route for step in steps):
        if isinstance(route, Library) and not route.has_rival:
            raise UnsupportedProblem(f"{operation}: {route.name} answers ({route.reason}); there is nothing to tune")
    todo = dict.fromkeys(step.problem for step in steps if step.problem.operation in CASES)
    if not todo:
        names = ", ".join(dict.fromkeys(step.problem.operation for step in steps))
        raise UnsupportedProblem(f"{operation}: kernels of {names} are chosen by rules; there is nothing to tune")
    compiling = (step.backend for step in steps if hasattr(step.backend, "prepare"))  # small steps are the library's
    backend = next(compiling, held.backend)
    minimise = tune_energy if goal == ENERGY else tune_problem
    results = [minimise(problem, backend, strategy=strategy, limit=limit) for problem in todo]
    PLANS.forget()
    return results if isinstance(held, StepsPlan) else results[0]


def _tune_sparse(operation: str, A: Any, p: Any, limit: int, options: dict[str, Any]) -> sparse.Tuned:
    """Formats of a sparse matrix, and executions of p powers."""
    if hasattr(A, "storage"):  # as `ms.sparse.matrix` made it, which is one of the formats
        A = A.to_scipy() if A.device[0] == "cpu" else A.to_cupy()
    counts = p if operation in ("matrix_powers", "powers") else None
    return sparse.tune(A, counts, limit=limit, **options)
