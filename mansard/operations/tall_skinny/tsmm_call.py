"""From a tall matrix times a small one to a plan: validation and the problem."""

from __future__ import annotations

from collections.abc import Hashable

from ...arrays.kinds import View
from ...arrays.types import Array
from ...kernels.tall_skinny.tsmm import emit, spec
from ...plan.plan import Plan
from ...plan.problem import Problem
from .. import run as call
from .pair import Pair


def plan_tsmm(
    A: Array, B: Array, out: Array, backend: str | None, form: Hashable = None, handover: bool = False
) -> Plan:
    """A plan of A B for tall A and small B. Nothing is written before every argument has been checked."""
    return plan_pair(Pair.of(A, B, out), backend, handover)


def plan_pair(pair: Pair, backend: str | None, handover: bool, shape: tuple[int, ...] = ()) -> Plan:
    """A plan for described operands. `shape`: of the result, where it is not that of the product (a folded stack)."""
    a, c, w = pair.views["A"], pair.views["B"], pair.views.get("out")
    if a.shape[1] != c.shape[0]:
        raise ValueError(f"A has {a.shape[1]} columns and B {c.shape[0]} rows: both need the same number M")
    call.check_out(w, (a.shape[0], c.shape[1]))
    chosen = pair.backend(backend)
    # kernels conjugate B while reading it; a lazily conjugated A, and strides the CPU kernel does not read, are copied
    copies = (a.conjugated or (chosen.name == "cpu" and call.layout(a)[0] == "any"), False)
    if copies[0]:
        a = call.as_copied(a)
    problem = _problem(a, c, w)
    return pair.plan(emit, problem, chosen, (a, c), shape or (problem.K, problem.N), handover, backend, copies)


def _problem(a: View, c: View, w: View | None) -> Problem:
    layout_a, pitch_a = call.layout(a)
    layout_w, pitch_w = call.layout(w) if w else ("row", c.shape[1])
    in_place = w is not None and w.address == a.address and w.strides == a.strides and w.shape == a.shape
    return spec.problem(
        a.dtype,
        a.shape[1],
        c.shape[1],
        a.shape[0],
        layout_a=layout_a,
        layout_w=layout_w,
        pitch_a=pitch_a,
        pitch_w=pitch_w,
        aligned=a.address % 16 == 0 and (w is None or w.address % 16 == 0),
        in_place=in_place,
        conj=c.conjugated,
    )
