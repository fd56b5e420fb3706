"""Products with the Q of a QR factorization that is held as reflectors, and exchanges of rows by pivots."""

from __future__ import annotations

from collections.abc import Callable

from ...arrays.types import Array, Kind
from .plan import blocked, swapped
from .swaps import order_of, permuted
from .systems import common_lead
from .task import broadcast, copied, stacked


def multiply_by_q(
    kind: Kind, h: Array, tau: Array, C: Array, left: bool, adjoint: bool, out: Array, backend: str | None
) -> Array:
    """op(Q) C, or C op(Q), by blocks of reflectors: three products for each block. h (..., n, m) is transposed, as
    `qr(a, "raw")` gives it."""
    h, tau, C = (stacked(kind, one) for one in (h, tau, C))
    F = h.swapaxes(-1, -2)[..., :, : tau.shape[-1]]
    steps = blocked(kind, backend)
    return _multiply(kind, ("h", "c"), (F,), C, left, adjoint, out, lambda X, how: steps.apply_q(F, tau, X, how))


def multiply_by_block(
    kind: Kind, V: Array, T: Array, C: Array, left: bool, adjoint: bool, out: Array, backend: str | None
) -> Array:
    """op(H) C, or C op(H), with H = I - V T V^H: three products."""
    V, T, C = (stacked(kind, one) for one in (V, T, C))
    upper, steps = kind.module.triu(T), blocked(kind, backend)
    return _multiply(
        kind, ("v", "t", "c"), (V, T), C, left, adjoint, out, lambda X, how: steps.reflect(V, None, X, how, upper)
    )


def compact_block(kind: Kind, V: Array, tau: Array, out: Array, backend: str | None) -> Array:
    """T of the block of reflectors V."""
    V, tau = stacked(kind, V), stacked(kind, tau)
    lead = common_lead(("v", "tau"), V, tau[..., None])
    V, tau = broadcast(kind, V, (*lead, *V.shape[-2:])), broadcast(kind, tau, (*lead, tau.shape[-1]))
    found = blocked(kind, backend).compact(V, tau)
    return found if out is None else _put(found, out)


def _multiply(
    kind: Kind, names: tuple[str, ...], reflectors: tuple[Array, ...], C: Array, left: bool, adjoint: bool, out: Array,
    apply: Callable[[Array, bool], None],
) -> Array:  # fmt: skip
    """`apply(X, adjoint)` multiplies X by a matrix from the left, in place; from the right: C Q = (Q^H C^H)^H."""
    if not left:
        C, adjoint = kind.conj(C.swapaxes(-1, -2)), not adjoint
    lead = common_lead(names, *reflectors, C)
    X = copied(kind, broadcast(kind, C, (*lead, *C.shape[-2:])))
    apply(X, adjoint)
    found = X if left else kind.conj(X.swapaxes(-1, -2))
    if out is None:
        return found if left else kind.plain(found)
    return _put(found, out)


def exchange_rows(kind: Kind, A: Array, pivots: Array, inverse: bool, out: Array, backend: str | None) -> Array:
    """Row i against row pivots[i], for i = 0, 1, ... one after the other; `inverse`: from the last to the first."""
    A, pivots = stacked(kind, A), stacked(kind, pivots)
    lead = common_lead(("a", "piv"), A, pivots[..., None])
    A = broadcast(kind, A, (*lead, *A.shape[-2:]))
    if 0 in A.shape or not pivots.shape[-1]:
        return copied(kind, A) if out is None else _put(A, out)
    if not inverse and tuple(pivots.shape[:-1]) == lead:
        X = copied(kind, A)
        if swapped(kind, backend, pivots, X):
            return X if out is None else _put(X, out)
    order = order_of(kind, pivots, A.shape[-2])
    if inverse:
        order = kind.module.argsort(order, **{"axis" if kind.has_numpy_methods else "dim": -1})
    found = permuted(kind, broadcast(kind, order, (*lead, A.shape[-2])), A)
    return found if out is None else _put(found, out)


def _put(found: Array, out: Array) -> Array:
    """The result in its place; of a list, in the place of each."""
    if isinstance(out, list | tuple):
        for place, one in zip(out, found, strict=True):
            place[...] = one
    else:
        out[...] = found
    return out
