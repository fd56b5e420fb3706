"""From W = V S and its Gram matrix to a kernel that forms both: the problem, and who can run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backends.select import select
from ..families.matmul_gram import emit, spec
from ..plan import pin
from . import arrays, call
from .arrays import View

Run = Callable[[Any, Any, Any, complex, complex], tuple[Any, Any]]

_RUNS: dict[Any, Run | None] = {}
_MOST_RUNS = 1024


def plan_matmul_gram(V: Any, S: Any, out: Any, backend: str | None) -> Run | None:
    """A call of the fused kernel for checked arrays like these; None where a product and a gram must do."""
    kind = arrays.kind_of(V, "V")
    of_out = None if out is None else kind.signature(out)
    in_place = out is not None and kind.address(out) == kind.address(V)
    key = (type(V), kind.signature(V), kind.signature(S), of_out, in_place, backend)
    if key not in _RUNS or pin.pins():
        if len(_RUNS) >= _MOST_RUNS:
            _RUNS.clear()
        _RUNS[key] = _planned(kind, kind.view(V), kind.view(S), None if out is None else kind.view(out), backend)
    return _RUNS[key]


def _planned(kind: Any, a: View, c: View, w: View | None, backend: str | None) -> Run | None:
    chosen = select(a.device, backend)
    layout_a, pitch_a = call.layout(a)
    layout_w, pitch_w = call.layout(w) if w else ("row", c.shape[1])
    dense = layout_a == layout_w == "row" and pitch_w == c.shape[1] and not a.conjugated
    if chosen.name not in ("cuda", "emulated") or not dense or 0 in (*a.shape, *c.shape) or pin.pins():
        return None
    problem = spec.problem(
        a.dtype, a.shape[1], c.shape[1], a.shape[0], pitch_a=pitch_a, conj=c.conjugated,
        aligned=a.address % 16 == 0 and (w is None or w.address % 16 == 0),
        in_place=w is not None and w.address == a.address,
    )  # fmt: skip
    strides = (*a.strides, *c.strides, *(w.strides if w else (problem.N, 1)))
    launch, _, _ = call.prepare(emit, problem, chosen, strides)
    if launch is None:
        return None
    ordinal, shape = a.device[1], (problem.K, problem.N)

    def run(V: Any, S: Any, out: Any, alpha: complex, beta: complex) -> tuple[Any, Any]:
        W = kind.empty(shape, problem.dtype, V) if out is None else out
        G = kind.empty((problem.N, problem.N), problem.dtype, V)
        scalars = call.scalars(problem, alpha, beta)
        launch((kind.address(V), kind.address(S), kind.address(W), kind.address(G)), scalars, kind.stream(ordinal))
        return W, G

    return run
