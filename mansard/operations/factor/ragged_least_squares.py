"""Least squares of ragged batches: of full rank on GPUs by one kernel per size class, of any rank on CPUs by LAPACK.

On GPUs matrices are gathered into padded stacks.

A matrix A with more rows than columns is padded with as many rows as columns at the least,

    [A 0] [x]   [b]
    [0 I] [0] ~ [0]

so that the stack's matrices have full rank, too. The padding neither changes x nor adds to the residual. With fewer
rows than columns it is the other way round.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from ...arrays.types import Array, Matrices
from ...backends.base import Backend
from ...backends.select import select
from ...plan import pin
from ...plan.problem import ITEMSIZE
from .. import ragged_layout
from ..ragged import Ragged, allocate_beside
from ..ragged_classes import SizeClass, divide
from ..ragged_indices import Indices
from ..ragged_kernel import Runs, held_by
from ..ragged_stacks import Compute, Found, Given, StackedRun, Wanted
from ..ragged_vectors import Places, Vectors
from . import systems
from .plan import as_numpy

_RUNS: Runs = WeakKeyDictionary()


def least_squares_ragged(backend: str | None, A: Ragged, B: Ragged, out: None) -> tuple[Matrices, ...] | None:
    """Solutions, squared norms of the residuals, and ranks; None where sizes are answered one after the other."""
    chosen = select(A._view.device, backend)
    if chosen.name not in ("cuda", "emulated") or pin.pins():
        return None
    runs = held_by(_RUNS, A.layout, B.layout)
    key = (backend, chosen.name, A._kind, A._view.dtype, A._view.device)
    if key not in runs:
        fits = len(A) and not (A.layout.host()[0] != B.layout.host()[0]).any()
        runs[key] = _LeastSquares(backend, chosen, A, B) if fits else None
    return None if runs[key] is None else runs[key](A, B)


def least_squares_by_lapack(
    rcond: float | None, backend: str | None, A: Ragged, B: Ragged, out: None
) -> tuple[Matrices, ...] | None:
    """Solutions of least norm, squared norms of the residuals, ranks and singular values on CPUs, matrix by matrix: no
    kernel is compiled for sizes that few matrices have. None where sizes are answered one after the other."""
    chosen, kind = select(A._view.device, backend), A._kind
    sizes = [*A.layout.host()[:2], *B.layout.host()[:2]]
    if chosen.name != "cpu" or backend is not None or pin.pins() or not len(A) or not min(one.min() for one in sizes):
        return None
    if (sizes[0] != sizes[2]).any():
        return None
    a, b = (list(map(as_numpy, one)) for one in (A, B))
    try:
        found = [np.linalg.lstsq(one, right, rcond) for one, right in zip(a, b, strict=True)]
    except np.linalg.LinAlgError:
        return None
    X = Ragged.from_list([kind.upload(np.ascontiguousarray(one[0]), A.buffer) for one in found])
    rest = [(abs(right - one @ x[0]) ** 2).sum(0) for one, right, x in zip(a, b, found, strict=True)]
    ranks = kind.upload(np.array([one[2] for one in found], np.int32), A.buffer)
    return X, Vectors.of(kind, rest, A.buffer), ranks, Vectors.of(kind, [one[3] for one in found], A.buffer)


class _LeastSquares:
    """For two layouts, of which it holds nothing but tables."""

    def __init__(self, name: str | None, backend: Backend, A: Ragged, B: Ragged) -> None:
        tables, kind, dtype = [one.layout.host() for one in (A, B)], A._kind, A._view.dtype
        (rows, columns, _), (_, right, _) = tables
        self.places: Places | None = None  # of the residuals
        self.right, self.ranks = right, Indices(np.minimum(rows, columns).astype(np.int32), None, None)
        self.result = ragged_layout.packed(columns, right, ragged_layout.ALIGNMENT // ITEMSIZE[dtype])

        def run(stacks: list[Array], number: int) -> Found:
            found = systems.least_squares(kind, stacks[0], stacks[1], None, "qr", name)
            return {"X": found[0], "RESIDUALS": found[1]}

        self.run = StackedRun(
            kind, backend, dtype, A._view.device, Compute(run), _classes(rows, columns, right, ITEMSIZE[dtype]),
            [Given(tables[0], (0, 1), rows - columns), Given(tables[1], (0, 2))],
            {"X": Wanted(self.result[0].host(), lambda bounds: bounds[1:])},
        )  # fmt: skip

    def __call__(self, A: Ragged, B: Ragged) -> tuple[Matrices, ...]:
        X = allocate_beside(A, *self.result)
        found = [one["RESIDUALS"] for one in self.run([A, B], {"X": X})]
        if self.places is None:
            self.places = Places.of_stacks(self.run.members, [one.shape[1] for one in found], self.right)
        residuals = Vectors([one.reshape(-1) for one in found], self.places)
        return X, residuals, self.ranks.beside(A) * 1


def _classes(rows: Array, columns: Array, right: Array, itemsize: int) -> list[SizeClass]:
    """Classes of the shorter side and of what the longer one has more: padding is longer on the same side."""
    classes = []
    for is_tall in (True, False):
        some = np.flatnonzero((rows >= columns) == is_tall)
        more, short = abs(rows - columns)[some], np.minimum(rows, columns)[some]
        for one in divide(np.stack([more, short, right[some]], 1), itemsize) if len(some) else ():
            extra, order, wide = one.bounds
            bounds = (order + extra, order, wide) if is_tall else (order, order + extra, wide)
            classes.append(one._replace(bounds=bounds, members=some[one.members]))
    return classes
