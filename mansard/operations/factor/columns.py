"""A column at a time, by the array library: what factorizations without blocks are made of. Nothing here waits for the
device, so that a graph holds all of it."""

from __future__ import annotations

from typing import Any

from .swaps import exchange
from .task import Task, library

Found = dict[str, Any]


def column(kind: Any, task: Task, F: Any, A: Any) -> Found:
    """The factorization of a stack (..., m, 1) in the place F."""
    if A is not F:
        F[...] = A
    return {"cholesky": _cholesky, "lu": _lu, "qr": _qr}[task.family](kind, F)


def _cholesky(kind: Any, F: Any) -> Found:
    where, square = library(kind).where, F[..., 0, 0].real
    bad = ~(square > 0)  # NaN too
    root = where(bad, 1 + 0 * square, square) ** 0.5
    F[..., 0, 0] = where(bad, square, root)
    return {"INFO": _as_int32(kind, bad)}


def _lu(kind: Any, F: Any) -> Found:
    module, is_complex = library(kind), kind.view(F, "a").dtype.startswith("complex")
    size = abs(F.real) + abs(F.imag) if is_complex else abs(F)  # as LAPACK compares
    pivots = _as_int32(kind, module.argmax(size, -2))
    exchange(kind, pivots, F)
    zero = F[..., :1, :] == 0
    F[..., 1:, :] = F[..., 1:, :] / module.where(zero, 1 + 0 * F[..., :1, :], F[..., :1, :])
    return {"PIVOTS": pivots, "INFO": _as_int32(kind, zero[..., 0, 0])}


def _qr(kind: Any, F: Any) -> Found:
    """A reflection, scaled so that no square is too large or too small."""
    module, x = library(kind), F[..., 0]
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


def _as_int32(kind: Any, array: Any) -> Any:
    """Of any number of dimensions: that of one matrix is a number, which NumPy's contiguous copies are not."""
    return array.int() if kind.name == "PyTorch" else array.astype("int32")
