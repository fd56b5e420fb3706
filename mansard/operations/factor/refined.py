"""Systems by factors in single precision, corrected by residuals in double precision (`refine=True`).

    L U = P fl(A / 2^e),  x = 0,  r = b,   then  x += 2^-e (L U)^-1 P fl(r),  r = b - A x   until r is small

Each correction shrinks the error by about 6e-8 times the condition number. A column of x has converged when
|r| <= eps (|A| |x| + |b|), or when |r| no longer halves and is sqrt(n) times as much, which is all that LAPACK's dsgesv
asks for. Matrices that do not get there (condition numbers
beyond about 1e7, pivots that are zero in single precision, entries that are not finite) are solved again in double
precision, together, by the plain call's route: their solutions and `info` are those of the plain call.

On GPUs the first corrections are launched without looking. Then the host waits for one number per matrix; matrices that
have not converged are gathered into a smaller batch. On CPUs LAPACK refines one matrix after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from ...arrays.types import Array, Kind
from ...backends.base import Backend
from ...backends.select import select
from ...errors import LaunchError
from ...kernels.factor.refinement.spec import CONVERGED, NARROW, RUNNING
from .. import operation
from ..batched.gemm_call import multiply
from ..batched.gemv_call import GEMV, form_of
from ..ragged_copy import is_capturing
from . import refined_host, systems
from .plan import factor
from .refined_launches import Refinement
from .task import Task, broadcast, stacked

FIRST_CORRECTIONS = 2  # of every matrix on a GPU before the host looks: condition numbers to about 1e4 need no more
FEW = 8  # one of so many matrices, or less, is solved again rather than corrected along with all others


def solve(kind: Kind, task: Task, A: Array, B: Array, out: Array, backend: str | None) -> tuple[Array, Array]:
    """Solutions and `info` for stacks or lists whose leading dimensions broadcast."""
    A, B = stacked(kind, A), stacked(kind, B)
    dtype = kind.view(A, "a").dtype
    check_dtype(dtype)
    lead, core = systems.common_lead(("a", "b"), A, B), tuple(B.shape[-2:])
    if out is not None:
        systems.check_place(kind, out, (*lead, *core), dtype)
    if 0 in (*lead, *core):
        return systems.solve(kind, task, A, B, out, backend)
    one = prod(A.shape[:-2]) == 1 and prod(lead) > 1  # its factors serve all right-hand sides, which become columns
    a = A.reshape(1, *A.shape[-2:]) if one else broadcast(kind, A, (*lead, *A.shape[-2:])).reshape(-1, *A.shape[-2:])
    b = broadcast(kind, B, (*lead, *core)).reshape(-1, *core)
    if one:
        b = b.swapaxes(0, 1).reshape(1, core[0], -1)
    X, info = _solve_stack(kind, task, a, b, backend)
    if one:
        X = X.reshape(core[0], -1, core[1]).swapaxes(0, 1)
    X, info = X.reshape(*lead, *core), systems.copied_to(kind, info.reshape(()), lead) if one else info.reshape(lead)
    if out is None:
        return kind.plain(X), info
    for place, value in zip(out, X, strict=True) if isinstance(out, list | tuple) else ((out, X),):
        place[...] = value
    return out, info


def is_asked(refine: bool | None) -> bool:
    """The option `refine`, checked."""
    if not (refine is None or isinstance(refine, bool | np.bool_)):
        raise ValueError(f"refine={refine!r} is not one of None, False and True")
    return bool(refine)


def check_dtype(dtype: str) -> None:
    """TypeError for matrices that are no double-precision ones."""
    if dtype not in NARROW:
        raise TypeError(
            f"a has dtype {dtype}: refine=True is for {' and '.join(NARROW)}; leave refine out, or convert a and b"
        )


def _solve_stack(kind: Kind, task: Task, A: Array, B: Array, backend: str | None) -> tuple[Array, Array]:
    """Solutions and `info` of stacks (count, n, n) and (count, n, k)."""
    plain = partial(systems.solve, kind, task, out=None, backend=backend)
    chosen = select(kind.view(A, "a").device, backend)
    if chosen.name == "cpu" or (chosen.name == "reference" and kind.view(A, "a").device[0] == "cpu"):
        found, states = refined_host.solve(task, kind.download(A), kind.download(B))
        X = kind.upload(found, A)
    elif chosen.name == "reference":  # the array library alone, which refines nothing
        return plain(A, B)
    else:
        X, states = _on_gpu(kind, task, chosen, A, B, backend)
    again = np.flatnonzero(states != CONVERGED)
    if len(again) == len(states):
        return plain(A, B)
    info = kind.upload(np.zeros(len(states), np.int32), A)
    if len(again):
        some = kind.upload(again, A)
        X[some], info[some] = plain(A[some], B[some])
    return X, info


def _on_gpu(
    kind: Kind, task: Task, chosen: Backend, A: Array, B: Array, backend: str | None
) -> tuple[Array, Array]:  # fmt: skip
    """Solutions, and the state of every matrix as a NumPy array."""
    if kind.view(A, "a").conjugated:
        A = kind.plain(A)
    if task.family == "cholesky":  # residuals need the triangle that is not read
        A = kind.triangle(A, True)
        kind.mirror(A, True, kind.view(A, "a").dtype.startswith("complex"))
    run = Refinement(kind, chosen, A, kind.plain(B))
    if is_capturing(chosen, run.stream()):
        raise LaunchError("refine=True waits for the GPU, which a graph cannot: leave refine out of what is captured")
    run.start()
    made = factor(task._replace(want="factor"), kind, run.low, None, {"F": run.low}, backend)
    subtract, states = _subtraction(A, backend), run.states
    found = None
    for correction in range(1 + refined_host.MOST_CORRECTIONS):
        if task.family == "cholesky":
            systems.cholesky_solve(kind, made["F"], True, run.D, run.D, backend)
        else:
            systems.lu_solve(kind, made["F"], made["PIVOTS"], run.D, 0, run.D, backend)
        run.correct(subtract)
        if correction >= FIRST_CORRECTIONS:
            found = states()
            if FEW * np.count_nonzero(found == RUNNING) <= len(found):
                break
    return run.X, found


def _subtraction(A: Array, backend: str | None) -> Callable[[Array, Array], None]:
    """(X, R) -> R -= A X, by the kernels of products with vectors or matrices."""

    def subtract(X: Array, R: Array) -> None:
        if X.shape[-1] == 1:
            operation.call(GEMV, A, X[..., 0], R[..., 0], -1.0, 1.0, backend, form_of())
        else:
            multiply(A, X, R, -1.0, 1.0, backend)

    return subtract
