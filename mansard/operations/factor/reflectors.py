"""Products with the Q of a QR factorization that is held as reflectors, and exchanges of rows by pivots."""

from __future__ import annotations

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
    if not left:  # C Q = (Q^H C^H)^H
        C, adjoint = kind.conj(C.swapaxes(-1, -2)), not adjoint
    lead = common_lead(("h", "c"), F, C)
    X = copied(kind, broadcast(kind, C, (*lead, *C.shape[-2:])))
    blocked(kind, backend).apply_q(F, tau, X, adjoint)
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
