"""Warm calls of `matmul_gram` and `project`: a first call checks and plans, later ones look their operands up.

What the first call found out holds for all operands of the same signatures (library, shape, strides, dtype, device,
alignment, gradients). Addresses are compared in every call, where there is an `out` that might overlap an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from ...arrays import kinds as arrays
from ...arrays.types import Array, Kind
from ...plan import pin
from ...plan.handover import FEWEST_ON_CPUS
from .. import run as call
from ..plans import PLANS
from .gram import gram
from .matmul import matmul
from .matmul_gram_call import plan_matmul_gram

Run = Callable[[Array, Array, Array, complex, complex], tuple[Array, Array]]
Overlap = Callable[[Array, Array, Array], bool]  # whether `out` overlaps an operand in a way that is refused


class Warm(NamedTuple):
    """A call whose arguments need no more checks."""

    run: Run
    overlaps: Overlap | None  # None: there is no `out`


def key_of(name: str, first: Array, second: Array, out: Array, like: Array, backend: str | None) -> Hashable:
    """The key of a call in the cache of plans; None where nothing is remembered. `like`: the operand that `out` may
    replace."""
    kind = arrays.known_kind(first)
    if kind is None or kind.immutable or pin.pins() or type(second) is not type(first):
        return None
    signature = kind.signature
    if out is None:
        return (name, kind, signature(first), signature(second), backend)
    if type(out) is not type(first):
        return None
    in_place = kind.address(out) == kind.address(like)
    return (name, kind, signature(first), signature(second), signature(out), in_place, backend)


def warm(key: Hashable, first: Array, second: Array, out: Array) -> Run | None:
    """The call that was remembered; None if there is none, or `out` overlaps an operand."""
    held: Warm | None = None if key is None else PLANS.get(key)
    if held is None or (held.overlaps is not None and held.overlaps(first, second, out)):
        return None
    return held.run


def remember(key: Hashable, kind: Kind, read: tuple[Array, Array], out: Array, run: Run, replaced: int = 0) -> None:
    """Remember a call whose operands have been checked. `replaced`: the operand that `out` may replace."""
    if key is None:
        return
    overlaps: Overlap | None = None
    if out is not None:
        like, other = (kind.view(read[i], "A") for i in (replaced, 1 - replaced))
        view, address = kind.view(out, "out"), kind.address
        in_place = (view.address, view.shape, view.strides) == (like.address, like.shape, like.strides)
        shared = call.make_overlap(like, other, view, in_place)

        def overlaps(first: Array, second: Array, out: Array) -> bool:
            a, b = (address(first), address(second))[:: -1 if replaced else 1]
            return bool(shared(a, b, address(out)))

    PLANS.keep(key, Warm(run, overlaps))


def product_run(V: Array, S: Array, out: Array, backend: str | None) -> Run:
    """alpha V S + beta out and its Gram matrix, for operands like these: by one kernel, or a product and `gram`."""
    fused = plan_matmul_gram(V, S, out, None, backend)
    if fused is not None:
        return lambda V, S, out, alpha, beta: fused(V, S, out, None, alpha, beta)

    def run(V: Array, S: Array, out: Array, alpha: complex, beta: complex) -> tuple[Array, Array]:
        W = matmul(V, S, out=out, alpha=alpha, beta=beta, backend=backend)
        return W, gram(W, backend=backend)

    return run


def projection_run(V: Array, W: Array, out: Array, backend: str | None) -> Run:
    """W - V (V^H W) and its Gram matrix, for operands like these."""
    kind = arrays.kind_of(V, "V")
    C = kind.empty((V.shape[1], W.shape[1]), kind.view(V, "V").dtype, V)  # one like those that calls form
    fused = plan_matmul_gram(V, C, out, W, backend)
    if fused is not None:
        return lambda V, W, out, alpha, beta: fused(V, gram(V, W, backend=backend), out, W, alpha, beta)
    if kind.view(W, "W").device[0] == "cpu" and W.shape[0] < FEWEST_ON_CPUS:
        return _short_projection(kind, W, backend)
    copied = _copier(kind, W) if out is None else _copy_into
    rest = product_run(V, C, copied(W, out), backend)

    def run(V: Array, W: Array, out: Array, alpha: complex, beta: complex) -> tuple[Array, Array]:
        C = gram(V, W, backend=backend)
        return rest(V, C, copied(W, out), alpha, beta)

    return run


def _short_projection(kind: Kind, W: Array, backend: str | None) -> Run:
    """`projection_run` of few rows on a CPU: a library multiplies, and adds in passes of its own; one is enough."""
    shape, dtype, empty = tuple(W.shape), kind.view(W, "W").dtype, kind.empty

    def run(V: Array, W: Array, out: Array, alpha: complex, beta: complex) -> tuple[Array, Array]:
        rest = empty(shape, dtype, W) if out is None else out
        kind.module.subtract(W, matmul(V, gram(V, W, backend=backend), backend=backend), out=rest)
        return rest, gram(rest, backend=backend)

    return run


def _copier(kind: Kind, W: Array) -> Callable[[Array, Array], Array]:
    """A function that makes a row-major copy of arrays like W."""
    if kind.plain(W) is not W:
        return lambda W, out: kind.plain(W)
    shape, dtype, empty = tuple(W.shape), kind.view(W, "W").dtype, kind.empty
    return lambda W, out: _copy_into(W, empty(shape, dtype, W))


def _copy_into(W: Array, out: Array) -> Array:
    if out is not W:
        out[...] = W
    return out
