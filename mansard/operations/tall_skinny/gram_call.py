"""From the arguments of `gram` to a plan: validation and the problem."""

from __future__ import annotations

from typing import Any

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...backends.select import select
from ...kernels.tall_skinny.gram import emit, spec
from ...plan.plan import Plan
from ...plan.problem import Problem
from .. import run as call


def plan_gram(A: Any, B: Any, out: Any, conj: bool, deterministic: bool, backend: str | None) -> Plan:
    """A plan for these arrays. Nothing is written before every argument has been checked."""
    given = [("A", A)] + ([("B", B)] if B is not None else []) + ([("out", out)] if out is not None else [])
    kind = arrays.common_kind(given)
    views = {name: kind.view(array, name) for name, array in given}
    a, b, c = views["A"], views.get("B", views["A"]), views.get("out")
    call.check_matrices(views)
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"A has {a.shape[0]} rows and B {b.shape[0]}: both need the same number K")
    call.check_out(c, (a.shape[1], b.shape[1]))
    chosen = select(arrays.same_device(list(views.items())), backend)
    # A kernel conjugates A while reading; a lazily conjugated B must be made literal first.
    literal = B is None and a.conjugated  # one array on both sides: no single conjugation serves both
    copies = (literal, literal or (B is not None and b.conjugated))
    if chosen.name == "cpu":  # the CPU kernel reads rows or columns, not arbitrary strides
        copies = (copies[0] or call.layout(a)[0] == "any", copies[1] or call.layout(b)[0] == "any")
    conj = conj != (a.conjugated and not copies[0])  # copies are literal
    a, b = (call.as_copied(view) if copy else view for view, copy in zip((a, b), copies, strict=True))
    problem = _problem(a, b, B is None, conj, deterministic)
    strides = (*a.strides, *b.strides, *(c.strides if c else (problem.N, 1)))
    launch, choice, kernel = call.prepare(emit, problem, chosen, strides)
    run = call.Run(kind, problem, launch, copies, views, (problem.M, problem.N), _vendor)
    fast = call.counted(kind, out, run.fast)
    return Plan(problem, choice, chosen, kernel, fast, call.make_verify(kind, A, B, out), launch)


def _vendor(kind: Any, problem: Problem, A: Any, B: Any, out: Any) -> Any:
    return kind.matmul((kind.conj(A) if problem.conj else A).T, B, out)


def _problem(a: View, b: View, same: bool, conj: bool, deterministic: bool) -> Problem:
    (layout_a, pitch_a), (layout_b, pitch_b) = call.layout(a), call.layout(b)
    return spec.problem(
        a.dtype,
        a.shape[1],
        b.shape[1],
        a.shape[0],
        layout_a=layout_a,
        layout_b=layout_b,
        pitch_a=pitch_a,
        pitch_b=pitch_b,
        aligned=a.address % 16 == 0 and b.address % 16 == 0,
        same=same,
        conj=conj,
        deterministic=deterministic,
    )
