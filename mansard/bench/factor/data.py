"""Operands of factorizations, from buffers of random numbers: Cholesky gets G G^H + n I, which is well conditioned;
others get the numbers as they are, determinants scaled so that they neither overflow nor vanish."""

from __future__ import annotations

from collections.abc import Iterator
from math import e, sqrt
from typing import Any

import numpy as np

import mansard as ms

from ..batched.operations import offsets, ragged_sizes
from ..cases import Case
from ..declared.systems import PART, positive
from .operations import RAGGED


def pair(xp: Any, case: Case, A: Any, B: Any) -> tuple[Any, Any]:
    """A and B of the case from views of the buffers; there is a B where systems are solved."""
    if case.form == RAGGED:
        return _ragged_matrices(xp, case, A), ragged(case, B, 1) if case.operation == "solve" else None
    if case.operation == "cholesky":
        A = positive(xp, A)
    if case.operation == "determinant":  # of random numbers about sqrt(n!), which is sqrt(n / e)^n
        A = A * xp.asarray(1 / sqrt(case.M / e), A.dtype)
    return A, B if case.operation == "solve" else None


def ragged(case: Case, buffer: Any, columns: int) -> Any:
    """The matrices, or vectors, of a ragged batch, one after the other in a buffer."""
    sizes, starts = ragged_sizes(case.M, case.K), offsets(case.M, case.K, columns, case.dtype)[:-1]
    return ms.Ragged(buffer.reshape(-1), sizes, sizes if columns > 1 else 1, starts)


def _ragged_matrices(xp: Any, case: Case, A: Any) -> Any:
    buffer = A.reshape(-1)
    if case.operation == "cholesky":
        buffer = buffer.copy()
        for size, places in places_of(case):
            where = xp.asarray(places)[:, None] + xp.arange(size * size)
            buffer[where] = positive(xp, buffer[where].reshape(-1, size, size)).reshape(len(places), -1)
    return ragged(case, buffer, case.M)


def places_of(case: Case, columns: int = 0) -> Iterator[tuple[int, Any]]:
    """Each size of a ragged batch, and where matrices of it (vectors: 1 column) begin, some at a time."""
    sizes, starts = ragged_sizes(case.M, case.K), offsets(case.M, case.K, columns or case.M, case.dtype)[:-1]
    for size in range(1, case.M + 1):
        members = starts[np.flatnonzero(sizes == size)]
        for part in np.array_split(members, -(-len(members) * size * size // (PART // 4)) or 1):
            if len(part):
                yield size, part
