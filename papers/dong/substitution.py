"""Triangular systems with one right-hand side, the ways of Dong's figures 4.4 and 4.5, made of calls of the library.

`inverted` multiplies by the inverse, `blocked` solves blocks one after the other and multiplies by what lies before
each, `recursive` halves. `whole` is the library's own kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mansard as ms

LEAF = 64  # rows of a triangle that is solved at once

Way = Callable[[Any, Any, str], None]  # (A, x, uplo): solves in place of x


def whole(A: Any, x: Any, uplo: str) -> None:
    ms.blas.trsv(A, x, uplo=uplo, out=x)


def inverted(A: Any, x: Any, uplo: str) -> None:
    """A holds a triangle and zeros."""
    x[...] = ms.blas.gemv(ms.linalg.inv_ex(A)[0], x)


def blocked(A: Any, x: Any, uplo: str) -> None:
    n = A.shape[-1]
    blocks = [slice(at, min(at + LEAF, n)) for at in range(0, n, LEAF)]
    for part in blocks if uplo == "L" else reversed(blocks):
        before = slice(0, part.start) if uplo == "L" else slice(part.stop, n)
        if before.start < before.stop:
            _subtract(A[..., part, before], x[..., before], x[..., part])
        whole(A[..., part, part], x[..., part], uplo)


def recursive(A: Any, x: Any, uplo: str) -> None:
    n = A.shape[-1]
    if n <= LEAF:
        return whole(A, x, uplo)
    halves = slice(0, n // 2), slice(n // 2, n)
    first, second = halves if uplo == "L" else reversed(halves)
    recursive(A[..., first, first], x[..., first], uplo)
    _subtract(A[..., second, first], x[..., first], x[..., second])
    return recursive(A[..., second, second], x[..., second], uplo)


def _subtract(A: Any, x: Any, y: Any) -> None:
    """y - A x in place of y."""
    ms.blas.gemv(A, x, alpha=-1.0, beta=1.0, out=y)


WAYS: dict[str, Way] = {"inverted": inverted, "blocked": blocked, "recursive": recursive, "whole": whole}
