"""From a large matrix times a skinny one to a plan: validation and the problem."""

from __future__ import annotations

from collections.abc import Hashable

from ...arrays.kinds import View
from ...arrays.types import Array
from ...kernels.tall_skinny.tsm2r import emit, spec
from ...plan.plan import Plan
from ...plan.problem import Problem
from .. import run as call
from .pair import Pair


def plan_tsm2r(
    A: Array, B: Array, out: Array, backend: str | None, form: Hashable = None, handover: bool = False
) -> Plan:
    """A plan of A B for large A and skinny B. Nothing is written before every argument has been checked."""
    pair = Pair.of(A, B, out)
    a, b, c = pair.views["A"], pair.views["B"], pair.views.get("out")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"A has {a.shape[1]} columns and B {b.shape[0]} rows: both need the same number K")
    call.check_out(c, (a.shape[0], b.shape[1]))
    chosen, problem = pair.backend(backend), _problem(a, b, c)
    # kernels conjugate while they read, whatever the strides: nothing is ever copied
    return pair.plan(emit, problem, chosen, (a, b), (problem.M, problem.N), handover, backend)


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
