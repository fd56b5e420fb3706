"""From W = V S and its Gram matrix to a kernel that forms both: the problem, and who can run it."""

from __future__ import annotations

from collections.abc import Callable

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...backends.select import select
from ...kernels.tall_skinny.matmul_gram import emit, spec
from ...plan import pin, route_records
from ...plan.plan import Plan
from .. import run as call
from ..plans import PLANS

Run = Callable[..., tuple[Array, Array]]


def plan_matmul_gram(V: Array, S: Array, out: Array, base: Array, backend: str | None) -> Run | None:
    """A call of the fused kernel for checked arrays like these; None where a product and a gram must do.

    `run(V, S, out, base, alpha, beta)` forms alpha V S + beta base; without a base, beta multiplies what `out` holds.
    `gate` is the address of a word that tells the kernel whether to do anything at all.
    """
    kind = arrays.kind_of(V, "V")
    of_out, of_base = (None if array is None else kind.signature(array) for array in (out, base))
    in_place = out is not None and kind.address(out) == kind.address(V)
    key = ("matmul_gram", type(V), kind.signature(V), kind.signature(S), of_out, of_base, in_place, backend)
    if pin.pins():
        return None  # parameters of other kernels, which a product and a gram take
    held: tuple[Run | None] | None = PLANS.get(key)
    if held is None:
        found = plan_fused(V, S, out, base, backend)
        held = (None if found is None else found.run,)
        PLANS.keep(key, held)
    return held[0]


def plan_fused(V: Array, S: Array, out: Array, base: Array, backend: str | None) -> Plan | None:
    """Plan the fused kernel for checked arrays like these; None where a product and a gram must do. The plan's `run`
    takes (V, S, out, base, alpha, beta, gate), and checks nothing."""
    if pin.pins():
        return None
    kind = arrays.kind_of(V, "V")
    w, d = (None if one is None else kind.view(one, name) for name, one in (("out", out), ("base", base)))
    return _planned(kind, kind.view(V, "V"), kind.view(S, "S"), w, d, backend)


def _planned(kind: Kind, a: View, c: View, w: View | None, d: View | None, backend: str | None) -> Plan | None:
    chosen = select(a.device, backend)
    layout_a, pitch_a = call.layout(a)
    layout_w, pitch_w = call.layout(w) if w else ("row", c.shape[1])
    layout_d, pitch_d = call.layout(d) if d else ("row", pitch_w)
    dense = layout_a == layout_w == layout_d == "row" and pitch_w == c.shape[1]
    literal = not a.conjugated and not (d and d.conjugated)
    reached = chosen.name in ("cuda", "emulated")
    if not reached or not dense or not literal or 0 in (*a.shape, *c.shape):
        return None
    problem = spec.problem(
        a.dtype, a.shape[1], c.shape[1], a.shape[0], pitch_a=pitch_a, conj=c.conjugated,
        aligned=a.address % 16 == 0 and (w is None or w.address % 16 == 0),
        in_place=w is not None and w.address == a.address,
    )  # fmt: skip
    if backend is None and chosen.name == "cuda" and route_records.find(problem, chosen.device):
        return None
    strides = (*a.strides, *c.strides, *(w.strides if w else (problem.N, 1)), pitch_d)
    launch, choice, kernel = call.prepare(emit, problem, chosen, strides)
    if launch is None:
        return None
    shape, stream = (problem.K, problem.N), kind.stream_of(a.device)
    address, empty, written = kind.address, kind.empty, kind.written

    def run(
        V: Array, S: Array, out: Array = None, base: Array = None, alpha: complex = 1.0, beta: complex = 0.0,
        gate: int = 0,
    ) -> tuple[Array, Array]:  # fmt: skip
        W = empty(shape, problem.dtype, V) if out is None else out
        G = empty((problem.N, problem.N), problem.dtype, V)
        at = address(W)
        pointers = (address(V), address(S), at if base is None else address(base), at, address(G), gate)
        launch(pointers, call.scalars(problem, alpha, beta), stream())
        if out is not None and written is not None:
            written((out,))
        return W, G

    return Plan(problem, choice, chosen, kernel, run, lambda *_: None, launch)
