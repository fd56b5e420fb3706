"""Tiny systems by factors that are there already, and squared residuals, on GPUs: one launch each (`systems`).

Exchanges of rows and two triangular systems are three launches and some array operations, which take longer than the
arithmetic of matrices as small as these. Where `systems` has no kernel, the functions return None.
"""

from __future__ import annotations

from collections.abc import Callable

from ...arrays.types import Array, Kind
from ...plan import pin
from .. import warm
from .kernel import KernelRun, Quick
from .places import overlaps
from .plan import FactorPlan, planned
from .quick import keep_quick, quick_key
from .task import Found, Task

_RESIDUALS, _BY_QR = Task("systems", "residuals"), Task("qr", "solve")
BY_CHOLESKY = {lower: Task("systems", "cholesky", upper=not lower) for lower in (True, False)}
BY_LU = tuple(Task("systems", want) for want in ("lu", "transposed", "adjoint"))  # by SciPy's option `trans`


def with_factors(
    kind: Kind, task: Task, F: Array, pivots: Array, B: Array, out: Array, backend: str | None
) -> Array:  # fmt: skip
    """Solutions by factors, and pivots, that are given: stacks of the same leading dimensions, pivots int32 without
    gaps. The task is one of `BY_LU` or `BY_CHOLESKY`."""
    given: Found = {} if pivots is None else {"PIVOTS": pivots}
    apart = out is not None and not overlaps(kind, F, B, {"X": out})
    plan = plan_with_factors(kind, task, F, B, given | {"X": out} if apart else given, backend)
    if plan is None:
        return None
    if out is not None and not apart:
        out[...] = plan.run(F, B, given)["X"]
        return out
    _remember(kind, task, F, pivots, B, out, backend, plan)
    return plan.run(F, B, given | {"X": out} if apart else given)["X"]


def plan_with_factors(
    kind: Kind, task: Task, F: Array, B: Array, outs: Found, backend: str | None
) -> FactorPlan | None:  # fmt: skip
    """The plan of `with_factors`; None where there is no kernel, and under pins: they are for triangles."""
    if 0 in F.shape or 0 in B.shape or pin.pins():
        return None
    plan = planned(task, kind, F, B, outs, backend, False)
    return None if plan.kernel is None else plan


def _remember(
    kind: Kind, task: Task, F: Array, pivots: Array, B: Array, out: Array, backend: str | None, plan: FactorPlan
) -> None:  # fmt: skip
    """Keep the path of later calls with operands like these: `quick`'s, or with pivots one of its own."""
    if pivots is None:
        run = plan.quick(out is not None)
        if run is not None:
            keep_quick(quick_key(task, backend, kind, F, B, out), kind, run, out is not None)
    elif plan.is_direct:
        assert plan.kernel is not None
        warm.keep((task, backend), (F, pivots, B), out, _with_pivots(plan.kernel, out is not None))


def _with_pivots(kernel: KernelRun, placed: bool) -> Callable[[Array, Array, Array, Array], Array | None]:
    """The launch that solves by factors and pivots, for stacks whose description is known."""
    launch, address, stream = kernel.launch, kernel.kind.address, kernel.stream
    make, overlap = kernel.maker("X"), kernel.overlap("X") if placed else None

    def run(F: Array, pivots: Array, B: Array, out: Array) -> Array | None:
        a, b = address(F), address(B)
        X = make(F) if out is None else out
        x = address(X)
        if overlap is not None and overlap(a, b, x):
            return None
        launch((a, address(pivots), b, x, 0, 0), (), stream())
        return X

    return run


def residuals(kind: Kind, A: Array, B: Array, X: Array, backend: str | None) -> tuple[Array, Array] | None:
    """Squared norms of the columns of B - A X, and the number of columns of each A; all of them stacks."""
    if 0 in (*A.shape, *B.shape) or pin.pins():
        return None
    plan = planned(_RESIDUALS, kind, A, B, {"X": X}, backend, False)
    if plan.kernel is None:
        return None
    found = plan.run(A, B, {"X": X})
    return found["SQUARES"], found["INFO"]


def determinants(kind: Kind, want: str, F: Array, pivots: Array, info: Array, backend: str | None) -> Found | None:
    """Determinants, or signs and logarithms, from factors, pivots and info: the parts of an `lu` task."""
    if 0 in F.shape or pin.pins():
        return None
    given = {"PIVOTS": as_int32(kind, pivots), "INFO": as_int32(kind, info)}
    plan = planned(Task("systems", want), kind, F, None, given, backend, False)
    if plan.kernel is None:
        return None
    found = plan.run(F, None, given)
    return {"F": found["X"]} if want == "determinant" else {"F": found["X"], "X": found["SQUARES"]}


def as_int32(kind: Kind, pivots: Array) -> Array:
    """Pivots as kernels read them: without gaps."""
    return kind.astype(kind.plain(pivots), "int32")


def least_squares(kind: Kind, A: Array, B: Array, backend: str | None) -> tuple[Array, Array, Array] | None:
    """Solutions by QR, squared residuals and ranks, for stacks of full rank with the same leading dimensions."""
    if 0 in (*A.shape, *B.shape) or pin.pins():
        return None
    solved = planned(_BY_QR, kind, A, B, {}, backend, False)
    if solved.kernel is None:
        return None
    X = solved.run(A, B, {})["X"]
    found = residuals(kind, A, B, X, backend)
    measured = planned(_RESIDUALS, kind, A, B, {"X": X}, backend, False)
    first = solved.quick(False)
    if found is not None and first is not None and measured.is_direct and measured.kernel is not None:
        warm.keep((LEAST_SQUARES, backend), (A, B), None, _both(first, measured.kernel))
    return None if found is None else (X, *found)


LEAST_SQUARES = Task("systems", "least squares")  # names the path of both launches


def _both(solve: Quick, kernel: KernelRun) -> Callable[[Array, Array, None], tuple[Array, ...]]:
    """The launches of `least_squares`, for stacks whose description is known."""
    launch, address, stream = kernel.launch, kernel.kind.address, kernel.stream
    squares_of, ranks_of = kernel.maker("SQUARES"), kernel.maker("INFO")

    def run(A: Array, B: Array, out: None) -> tuple[Array, ...]:
        found = solve(A, B, None)
        assert found is not None  # without a place there is nothing to overlap
        X, squares, ranks = found[0], squares_of(A), ranks_of(A)
        launch((address(A), 0, address(B), address(X), address(squares), address(ranks)), (), stream())
        return X, squares, ranks

    return run
