"""Tiny systems by factors that are there already, and squared residuals, on GPUs: one launch each (`systems`).

Exchanges of rows and two triangular systems are three launches and some array operations, which take longer than the
arithmetic of matrices as small as these. Where `systems` has no kernel, the functions return None.
"""

from __future__ import annotations

from ...arrays.types import Array, Kind
from ...plan import pin
from .places import overlaps
from .plan import planned
from .quick import keep_quick, quick_key
from .task import Task

_RESIDUALS = Task("systems", "residuals")
BY_CHOLESKY = {lower: Task("systems", "cholesky", upper=not lower) for lower in (True, False)}
BY_LU = tuple(Task("systems", want) for want in ("lu", "transposed", "adjoint"))  # by SciPy's option `trans`


def with_factors(
    kind: Kind, task: Task, F: Array, pivots: Array, B: Array, out: Array, backend: str | None
) -> Array:  # fmt: skip
    """Solutions by factors, and pivots, that are given: stacks of the same leading dimensions, pivots int32 without
    gaps. The task is one of `BY_LU` or `BY_CHOLESKY`."""
    if 0 in F.shape or 0 in B.shape or pin.pins():
        return None
    given = {} if pivots is None else {"PIVOTS": pivots}
    apart = out is not None and not overlaps(kind, F, B, {"X": out})
    plan = planned(task, kind, F, B, given | {"X": out} if apart else given, backend, False)
    if plan.kernel is None:
        return None
    if out is not None and not apart:
        out[...] = plan.run(F, B, given)["X"]
        return out
    run = plan.quick(apart) if pivots is None else None
    if run is not None:
        keep_quick(quick_key(task, backend, kind, F, B, out), kind, run, apart)
    return plan.run(F, B, given | {"X": out} if apart else given)["X"]


def residuals(kind: Kind, A: Array, B: Array, X: Array, backend: str | None) -> tuple[Array, Array] | None:
    """Squared norms of the columns of B - A X, and the number of columns of each A; all of them stacks."""
    if 0 in (*A.shape, *B.shape) or pin.pins():
        return None
    plan = planned(_RESIDUALS, kind, A, B, {"X": X}, backend, False)
    if plan.kernel is None:
        return None
    found = plan.run(A, B, {"X": X})
    return found["SQUARES"], found["INFO"]
