"""Exchanges of rows: LAPACK's pivots on stacks of matrices, one after the other or all at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...arrays.types import Array, Kind
from .task import copied

BEYOND = "piv has entries that are no rows of lu: pass what lu_factor gave"
_FEW = 16  # matrices: of more, an exchange of all of them is one operation on arrays
Kernel = Callable[[Array, Array], bool]  # (pivots, place): whether a kernel carried them out, in place


def order_of(kind: Kind, pivots: Array, rows: int) -> Array:
    """Which row comes to which place if row i is exchanged with row pivots[i], for i = 0, 1, ...; int64."""
    if kind.view(pivots, "piv").device[0] != "cpu":
        return order_by_pairs(kind, pivots, rows)
    host = np.asarray(pivots)
    if host.size and not 0 <= host.min() <= host.max() < rows:
        raise ValueError(BEYOND)
    if host.size <= _FEW * host.shape[-1]:
        return kind.upload(_orders_one_by_one(host, rows), pivots)
    lead, steps = host.shape[:-1], host.reshape(-1, host.shape[-1]).T  # an exchange of all matrices is one row here
    count = steps.shape[1]
    every, order = np.arange(count), np.repeat(np.arange(rows), count)  # row i of all matrices lies in one piece
    for i, other in enumerate(steps.astype(np.int64)):
        own, places = order[i * count : (i + 1) * count], other * count + every
        before = own.copy()
        own[...] = order[places]
        order[places] = before
    return kind.upload(np.ascontiguousarray(order.reshape(rows, count).T).reshape(*lead, rows), pivots)


def _orders_one_by_one(pivots: Array, rows: int) -> Array:
    """The orders of a few matrices, one after the other: a number of Python's is exchanged in a tenth of the time that
    a call of NumPy takes."""
    orders = []
    for exchanged in pivots.reshape(-1, pivots.shape[-1]).tolist():
        order = list(range(rows))
        for i, other in enumerate(exchanged):
            order[i], order[other] = order[other], order[i]
        orders.append(order)
    return np.array(orders, np.int64).reshape(*pivots.shape[:-1], rows)


def order_by_pairs(kind: Kind, pivots: Array, rows: int) -> Array:
    """The same in few steps, for GPUs. Every exchange is a permutation of its own; neighbours are composed, then
    neighbours of these: as many steps as the number of pivots has binary digits."""
    where, places = kind.module.where, kind.arange(rows, pivots)
    own, other = kind.arange(pivots.shape[-1], pivots)[:, None], kind.astype(pivots, "int64")[..., None]
    order = where(places == own, other, where(places == other, own, places))
    while order.shape[-2] > 1:
        count = order.shape[-2]
        pairs = count // 2
        joined = kind.allocate((*order.shape[:-2], count - pairs, rows), "int64", pivots)
        joined[..., :pairs, :] = kind.take_along(order[..., 0 : 2 * pairs : 2, :], order[..., 1 : 2 * pairs : 2, :], -1)
        joined[..., pairs:, :] = order[..., 2 * pairs :, :]
        order = joined
    return order[..., 0, :]


def permuted(kind: Kind, order: Array, X: Array) -> Array:
    """The rows of X in this order. On CPUs rows are copied as a whole, not entry by entry."""
    rows, columns = X.shape[-2:]
    if kind.view(X, "X").device[0] != "cpu" or 0 in X.shape or tuple(order.shape) != tuple(X.shape[:-1]):
        return kind.take_along(X, order[..., None], -2)
    first = rows * kind.arange(math.prod(X.shape[:-2]), order)[:, None]
    flat, chosen = X.reshape(-1, columns), (order.reshape(-1, rows) + first).reshape(-1)
    return (flat.take(chosen, 0) if isinstance(flat, np.ndarray) else flat[chosen]).reshape(X.shape)


def exchange(kind: Kind, pivots: Array, X: Array) -> None:
    """As LAPACK's laswp: row i against row pivots[i], one after the other, in place."""
    index = kind.astype(pivots, "int64")
    for i in range(pivots.shape[-1]):
        at, own = index[..., i, None, None], copied(kind, X[..., i : i + 1, :])
        other = kind.take_along(X, at, -2)
        kind.put_along(X, at, own, -2)
        X[..., i : i + 1, :] = other


class Swaps:
    """Carries out the exchanges of a panel on what lies beside it, in place."""

    def __init__(self, kind: Kind, how: str, kernel: Kernel) -> None:
        self.kind, self.how, self.kernel = kind, how, kernel

    def apply(self, pivots: Array, places: Sequence[Array]) -> None:
        """On views (..., rows, columns)."""
        order = None
        for place in places:
            if not place.shape[-1]:
                continue
            if self.how == "rows" or pivots.shape[-1] == 1:
                exchange(self.kind, pivots, place)
            elif not self.kernel(pivots, place):
                order = order_of(self.kind, pivots, place.shape[-2]) if order is None else order
                place[...] = permuted(self.kind, order, place)
