"""Warm calls of `matmul_gram` and `project`: a first call checks and plans, later ones look their operands up.

What the first call found out holds for all operands of the same signatures (library, shape, strides, dtype, device,
alignment, gradients). Addresses are compared in every call, where there is an `out` that might overlap an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ...arrays import kinds as arrays
from ...arrays.types import Array, Kind
from ...plan.tall_skinny_rules import FEWEST_ON_CPUS
from .. import run as call
from .. import warm
from .gram import gram
from .matmul import matmul
from .matmul_gram_call import plan_matmul_gram

Results = tuple[Array, Array]  # what was written, and its Gram matrix
Run = Callable[[Array, Array, Array, complex, complex], Results]


def named(name: str, backend: str | None, out: Array, like: Array) -> tuple[object, ...]:
    """The name of a call in the cache of plans. `like`: the operand in whose place `out` may lie."""
    kind = None if out is None else arrays.known_kind(like)
    in_place = kind is not None and type(out) is type(like) and kind.address(out) == kind.address(like)
    return name, backend, in_place


def keep(what: Hashable, kind: Kind, read: tuple[Array, Array], out: Array, run: Run, replaced: int = 0) -> None:
    """Leave `run` for later calls on arrays like these, which were checked; it answers None where `out` overlaps an
    operand in a way that is refused. `replaced`: the operand in whose place `out` may lie."""
    if out is None:
        warm.keep(what, read, out, run)
        return
    like, other = (kind.view(read[i], "A") for i in (replaced, 1 - replaced))
    view, address = kind.view(out, "out"), kind.address
    in_place = (view.address, view.shape, view.strides) == (like.address, like.shape, like.strides)
    shared = call.make_overlap(like, other, view, in_place)

    def apart(first: Array, second: Array, out: Array, alpha: complex, beta: complex) -> Results | None:
        a, b = (address(first), address(second))[:: -1 if replaced else 1]
        return None if shared(a, b, address(out)) else run(first, second, out, alpha, beta)

    warm.keep(what, read, out, apart)


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
