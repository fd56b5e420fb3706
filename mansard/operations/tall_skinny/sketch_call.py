"""From a tall matrix to its sketch, and its Gram matrix where one pass forms both: the problem, and who can run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...backends.select import select
from ...kernels.tall_skinny.sketch import emit, spec
from ...plan import pin
from .. import run as call
from ..plans import PLANS

# V -> (its sketch, its Gram matrix, or None where the kernel forms none)
Run: TypeAlias = Callable[[Array], tuple[Array, Array]]

_TALL = 2  # rows of V per row of its sketch, below which a sketch saves nothing
_PIECE = 4096  # rows of V whose signs are formed at a time, without a kernel


def is_tall(rows: int, columns: int) -> bool:
    """Whether a matrix has so many rows that its sketch is much smaller."""
    return rows >= _TALL * spec.rows(columns)


def plan_sketch(V: Array, backend: str | None, seed: int = 0) -> Run | None:
    """A call of the sketch kernel for a checked array like this; None where there is none. Sketches with different
    seeds may be added: they are one sketch of the matrices below each other."""
    kind = arrays.kind_of(V, "V")
    key = ("sketch", type(V), kind.signature(V), backend, seed)
    if pin.pins():
        return None  # parameters of other kernels
    held: tuple[Run | None] | None = PLANS.get(key)
    if held is None:
        held = (_planned(kind, kind.view(V, "V"), backend, seed),)
        PLANS.keep(key, held)
    return held[0]


def sketched(V: Array, backend: str | None, seed: int) -> Array:
    """The sketch of a checked array; by products with pieces of the sign matrix where there is no kernel."""
    run = plan_sketch(V, backend, seed)
    if run is not None:
        return run(V)[0]
    kind, (rows, columns) = arrays.kind_of(V, "V"), V.shape
    dtype = kind.view(V, "V").dtype
    Y = kind.empty((spec.rows(columns), columns), dtype, V)
    Y[...] = 0
    for first in range(0, rows, _PIECE):
        piece = V[first : first + _PIECE]
        S = spec.sign_matrix(len(piece), columns, seed, first).astype(dtype)
        Y += kind.matmul(kind.upload(np.ascontiguousarray(S), V), piece, None)
    return Y


def _planned(kind: Kind, a: View, backend: str | None, seed: int) -> Run | None:
    chosen = select(a.device, backend)
    layout, pitch = call.layout(a)
    rows, columns = a.shape
    if chosen.name not in ("cpu", "cuda", "emulated") or a.conjugated or not is_tall(rows, columns):
        return None
    problem = spec.problem(a.dtype, columns, rows, layout_a=layout, pitch_a=pitch, aligned=a.address % 16 == 0)
    if spec.refusal(problem):
        return None
    on_cpu = chosen.name == "cpu"
    launch, _, _ = call.prepare(emit, problem, chosen, (*a.strides, seed), is_free=on_cpu and backend is None)
    if launch is None:
        return None
    address, empty, stream = kind.address, kind.empty, kind.stream_of(a.device)
    height = spec.rows(columns)

    def run(V: Array) -> tuple[Array, Array]:
        Y = empty((height, columns), problem.dtype, V)
        if on_cpu:
            launch((address(V), address(Y)), (), stream())
            return Y, None
        G = empty((columns, columns), problem.dtype, V)
        launch((address(V), address(Y), address(G)), (), stream())
        return Y, G

    return run
