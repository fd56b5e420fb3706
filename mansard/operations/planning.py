"""`plan` and `tune`: the same calls as the one-shot functions, held or measured instead of just run."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from ..errors import UnsupportedProblem
from ..plan.plan import Plan
from . import registry
from .plans import PLANS
from .recipes import repeatable
from .registry import PublicOperation
from .steps import StepsPlan


def plan(
    operation: str, A: Any, B: Any = None, *, out: Any = None, backend: str | None = None, **options: Any
) -> Plan:  # fmt: skip
    """A held call: `plan("gram", A, B)` chooses and compiles now; `plan(A, B)` runs, `.explain()` says what and why.

    Operations have the names that users call, of `ms`, `ms.linalg` and `ms.blas`, with the operands and options of the
    call: `plan("solve", A, b, assume_a="pos")`, `plan("lu_solve", (lu, piv), b)`. `plan("matvec", A, x)` is a product
    with an `ms.sparse.matrix`, `plan("matrix_powers", A, p)` what `ms.matrix_powers` returns; both are called with x.
    `tsmm`, `tsm2r` and `lu` (with `want`) name a kernel family itself.

    Later arrays must have the same shapes, strides, dtype, alignment and device as the ones given here.

    A plan can be pickled, for another process say, which makes it again: it chooses and compiles for its own device.
    """
    found = _named(operation)
    _check(found, B, options)
    made: Any = found.plan(A, B, out, backend, found.form(**options))
    if found.home == "mansard.sparse" or found.name == "matrix_powers":  # which pickle with their matrix
        return made  # type: ignore[no-any-return]
    return repeatable(made, partial(plan, operation), {"A": A, "B": B, "out": out}, backend=backend, **options)


def _named(operation: str) -> PublicOperation:
    if operation not in registry.names():
        known = ", ".join(map(repr, registry.names()))
        raise ValueError(f"operation={operation!r}: there are {known}{registry.near(operation)}")
    return registry.named(operation)


def _check(operation: PublicOperation, B: Any, options: dict[str, Any]) -> None:
    """Options that the operation has, and as many operands as it needs."""
    unknown = [name for name in options if name not in operation.options]
    if unknown:
        known = f"; it has {', '.join(operation.options)}" if operation.options else ""
        raise TypeError(f"{operation.name} has no option {', '.join(unknown)}{known}")
    first, second = operation.operands
    if B is not None and not second:
        raise TypeError(f"{operation.name} takes {first} alone ({operation.text}): leave B out")
    if B is None and operation.required > 1:
        raise TypeError(f"{operation.name} takes {first} and {second} ({operation.text}): pass B")


def tune(
    operation: str, A: Any, B: Any = None, *, strategy: str = "top", limit: int = 24, **options: Any
) -> Any:  # fmt: skip
    """Measure candidates for these arrays on their device and remember the winner for later calls.

    What is measured are the kernels behind the operation: `tune("matmul", A, B)` tunes the family that answers for
    these shapes, which the result names (`result.problem`). Every candidate is checked against the reference before it
    is timed. Returns the tuning result, a list of them for an operation that is made of several; calls planned before
    keep their kernel, new ones use the winner. Sparse matrices are tuned as by `ms.sparse.tune`.
    """
    if operation in ("matvec", "spmv", "matrix_powers", "powers"):
        return _tune_sparse(operation, A, B, limit, options)
    from ..tune.cases import CASES
    from ..tune.session import tune_problem

    held = plan(operation, A, B, **options)
    steps = [step for _, step in held.steps] if isinstance(held, StepsPlan) else [held]
    todo = dict.fromkeys(step.problem for step in steps if step.problem.operation in CASES)
    if not todo:
        names = ", ".join(dict.fromkeys(step.problem.operation for step in steps))
        raise UnsupportedProblem(f"{operation}: kernels of {names} are chosen by rules; there is nothing to tune")
    results = [tune_problem(problem, held.backend, strategy=strategy, limit=limit) for problem in todo]
    PLANS.forget()
    return results if isinstance(held, StepsPlan) else results[0]


def _tune_sparse(operation: str, A: Any, p: Any, limit: int, options: dict[str, Any]) -> Any:
    """Formats of a sparse matrix, and executions of p powers."""
    if hasattr(A, "storage"):  # as `ms.sparse.matrix` made it, which is one of the formats
        A = A.to_scipy() if A.device[0] == "cpu" else A.to_cupy()
    counts = p if operation in ("matrix_powers", "powers") else None
    return import_module("mansard.sparse").tune(A, counts, limit=limit, **options)
