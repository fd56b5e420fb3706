"""A column at a time, by the array library: what factorizations without blocks are made of. Nothing here waits for the
device, so that a graph holds all of it."""

from __future__ import annotations

from ...arrays.types import Array, Kind
from .swaps import exchange
from .task import Found, Task


def column(kind: Kind, task: Task, F: Array, A: Array) -> Found:
    """The factorization of a stack (..., m, 1) in the place F."""
    if A is not F:
        F[...] = A
    return {"cholesky": _cholesky, "lu": _lu, "qr": _qr}[task.family](kind, F)


def _cholesky(kind: Kind, F: Array) -> Found:
    where, square = kind.module.where, F[..., 0, 0].real
    bad = ~(square > 0)  # NaN too
    root = where(bad, 1 + 0 * square, square) ** 0.5
    F[..., 0, 0] = where(bad, square, root)
    return {"INFO": kind.astype(bad, "int32")}


def _lu(kind: Kind, F: Array) -> Found:
    module, is_complex = kind.module, kind.view(F, "a").dtype.startswith("complex")
    size = abs(F.real) + abs(F.imag) if is_complex else abs(F)  # as LAPACK compares
    pivots = kind.astype(module.argmax(size, -2), "int32")
    exchange(kind, pivots, F)
    zero = F[..., :1, :] == 0
    F[..., 1:, :] = F[..., 1:, :] / module.where(zero, 1 + 0 * F[..., :1, :], F[..., :1, :])
    return {"PIVOTS": pivots, "INFO": kind.astype(zero[..., 0, 0], "int32")}


def _qr(kind: Kind, F: Array) -> Found:
    """A reflection, scaled so that no square is too large or too small."""
    module, x = kind.module, F[..., 0]
    where = module.where
    largest = module.amax(abs(x), -1)[..., None]
    scaled = x / where(largest == 0, 1 + largest, largest)
    first, rest = scaled[..., :1], module.sum(abs(scaled[..., 1:]) ** 2, -1)[..., None]
    norm = -module.copysign((abs(first) ** 2 + rest) ** 0.5, first.real)
    nothing = (rest == 0) & (first == first.real)
    tau = where(nothing, 0 * first, (norm - first) / where(nothing, 1 + 0 * norm, norm))
    F[..., 1:, 0] = scaled[..., 1:] / where(nothing, 1 + 0 * first, first - norm)
    F[..., :1, 0] = where(nothing, first, norm + 0 * first) * largest
    return {"TAU": tau, "Q": tau[..., None]}
