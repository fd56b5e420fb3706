"""From a large matrix times a skinny one to a plan: validation and the problem."""

from __future__ import annotations

from collections.abc import Hashable

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...backends.select import select
from ...kernels.tall_skinny.tsm2r import emit, spec
from ...plan.plan import Plan
from ...plan.problem import Problem
from .. import run as call


def plan_tsm2r(
    A: Array, B: Array, out: Array, backend: str | None, form: Hashable = None, handover: bool = False
) -> Plan:
    """A plan of A B for large A and skinny B. Nothing is written before every argument has been checked."""
    given = [("A", A), ("B", B)] + ([("out", out)] if out is not None else [])
    kind = arrays.common_kind(given)
    views = {name: kind.view(array, name) for name, array in given}
    a, b, c = views["A"], views["B"], views.get("out")
    call.check_matrices(views)
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"A has {a.shape[1]} columns and B {b.shape[0]} rows: both need the same number K")
    call.check_out(c, (a.shape[0], b.shape[1]))
    chosen = select(arrays.same_device(list(views.items())), backend)
    problem = _problem(a, b, c)
    strides = (*a.strides, *b.strides, *(c.strides if c else (problem.N, 1)))
    launch, choice, kernel = call.prepare(emit, problem, chosen, strides, handover)
    # kernels conjugate while they read, whatever the strides: nothing is ever copied
    run = call.Run(kind, problem, launch, (False, False), views, (problem.M, problem.N), _vendor)
    fast = call.counted(kind, out, run.fast)
    return Plan(problem, choice, chosen, kernel, fast, call.make_verify(kind, A, B, out), launch)


def _vendor(kind: Kind, problem: Problem, A: Array, B: Array, out: Array) -> Array:
    return kind.matmul(A, B, out)


def _problem(a: View, b: View, c: View | None) -> Problem:
    layout_a, pitch_a = call.layout(a)
    return spec.problem(
        a.dtype,
        a.shape[0],
        b.shape[1],
        a.shape[1],
        layout_a=layout_a,
        layout_b=call.layout(b)[0],
        layout_c=call.layout(c)[0] if c else "row",
        pitch_a=pitch_a,
        aligned=a.address % 16 == 0,
        conj_a=a.conjugated,
        conj_b=b.conjugated,
    )
