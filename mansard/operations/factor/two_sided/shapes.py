"""Rectangular matrices: which square problem is solved in their place, decided here alone, with the reason."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from .... import settings
from ....arrays.types import Array, Kind
from .task import Sizes, Task

_TALL = 1.2  # rows per column from which R is enough smaller than A to pay for Q R and the product with Q
_WORTH = 1 << 26  # products of sizes on CPUs, below which LAPACK's own QR is done before steps of ours
_COMPILED = 1 << 20  # products of sizes on CPUs from which QR and products have kernels: about a millisecond of LAPACK
_NEARLY = 8  # columns per column of zeros: by as much a matrix on CPUs is made square at less cost than by QR
_NOT_SQUARE = "more rows than columns, and kernels take square matrices: QR first, then R, then the product with Q"


class Shape(NamedTuple):
    """How a rectangular problem becomes a square one."""

    name: str  # `direct`, `triangle` (R of a QR factorization), `padded` (with columns of zeros) or `adjoint`
    reason: str


def shape_of(task: Task, sizes: Sizes, count: int, on_cpu: bool, needs_square: bool, widest: int = 0) -> Shape:
    """The way to take for `count` matrices. `needs_square`: whoever answers takes square matrices only; columns of
    zeros may make them square up to `widest` rows."""
    M, N = sizes
    if task.is_hermitian or M == N:
        return Shape("direct", "square matrices")
    if M < N:
        return Shape("adjoint", f"{M} rows and {N} columns: U and V of the adjoint change places")
    if needs_square and min(N + max(1, N // _NEARLY), widest) >= M:
        reason = f"{M} rows and {N} columns: {M - N} of zeros make it square, which costs less than QR first"
        return Shape("padded", reason)
    if needs_square:
        return Shape("triangle", _NOT_SQUARE)
    if M < _TALL * N:
        return Shape("direct", f"{M} rows and {N} columns: nearly square, QR first would cost more than it saves")
    if on_cpu and count * M * N * N < _WORTH:
        return Shape("direct", "little work: LAPACK's own QR comes before its bidiagonalization")
    return Shape("triangle", f"{M / N:.3g} rows per column: QR first, then R ({N} x {N}), then the product with Q")


def sparing(kind: Kind, A: Array, backend: str | None) -> str | None:
    """The backend for a stack's QR factorization and products: the array library for little work on CPUs, unless one
    was named."""
    *lead, M, N = A.shape
    little = prod(lead) * M * N * max(M, N) < _COMPILED and settings.current().backend == "cpu"
    return "reference" if backend is None and little and kind.view(A, "a").device[0] == "cpu" else backend
