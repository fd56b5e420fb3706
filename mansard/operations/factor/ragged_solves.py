"""Solves of ragged batches with factors that are there already (`cho_solve`, `lu_solve`), on CPUs: exchanges of rows
and both triangles in one launch for matrices of all sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...arrays.types import Array, Matrices
from ...backends.base import Backend
from ...backends.select import select
from ..batched.ragged_triangular import Pass, flags_of, rows_solver
from ..ragged import Ragged
from ..ragged_indices import copy_entries
from ..ragged_kernel import Runs, held_by, pins_reach
from . import lapack
from .plan import as_numpy
from .sorted import apart, check_shapes, place_like

_NO_SCALING = (1.0, 0.0, 0.0, 0.0)
_RUNS: Runs = WeakKeyDictionary()


class Factors(NamedTuple):
    """How A X = B is solved with factors of A."""

    name: str  # of the factors, as an argument
    flags: int  # passes and exchanges of rows, as the kernel reads them
    by_lapack: Callable[[Array, Array, Array], Array]  # (factors, pivots or None, B) -> X, for stacks


@lru_cache(maxsize=2)
def cholesky_factors(lower: bool) -> Factors:
    """L L^H X = B, or U^H U X = B."""
    plain, adjoint = Pass(not lower), Pass(not lower, True, True)
    passes = (plain, adjoint) if lower else (adjoint, plain)
    return Factors("c", flags_of(*passes), lambda F, _, B: lapack.cholesky_solve(F, lower, B))


@lru_cache(maxsize=3)
def lu_factors(trans: int) -> Factors:
    """A X = B with P A = L U, or with the transpose (1) or conjugate transpose (2) of A."""
    turned, conjugated = trans > 0, trans == 2
    low, high = Pass(False, turned, conjugated, True), Pass(True, turned, conjugated)
    passes = (high, low) if turned else (low, high)
    flags = flags_of(*passes, first=not turned, last=turned)
    return Factors("lu", flags, lambda F, pivots, B: lapack.lu_solve(F, pivots, B, trans))


def solve_with(factors: Factors, backend: str | None, *operands: Matrices) -> tuple[Ragged] | None:
    """The solutions for the factors, their pivots where there are any, B, and `out`; None: not on this backend."""
    F, *pivots, B, out = operands
    chosen = select(F._view.device, backend)
    if chosen.name != "cpu" or not pins_reach():
        return None
    place = place_like(B) if out is None else out
    runs = held_by(_RUNS, F.layout, B.layout, place.layout)
    key = (factors[:2], F._kind, F._view.dtype)
    if key not in runs:
        check_shapes(place, B)
        runs[key] = _FactoredRun(factors, chosen, F, B, place)
    if not (apart(F, place, False) and apart(B, place)):
        found = solve_with(factors, backend, F, *pivots, B, None)
        assert found is not None
        copy_entries(place, found[0])
        return (place,)
    runs[key](F, pivots[0] if pivots else None, B, place)
    return (place,)


class _FactoredRun:
    """For layouts that belong together, of which it holds nothing but tables."""

    def __init__(self, factors: Factors, backend: Backend, F: Ragged, B: Ragged, X: Ragged) -> None:
        self.factors, self.kind = factors, F._kind
        tables = [one.layout.host() for one in (F, B, X)]
        (rows, columns, _), below = tables[0], tables[1][0]
        if (rows != columns).any():
            i = int(np.argmax(rows != columns))
            name, shape = f"{factors.name}[{i}]", (int(rows[i]), int(columns[i]))
            raise np.linalg.LinAlgError(f"{name} has shape {shape}: its last two dimensions must be square")
        if (below != rows).any():
            i = int(np.argmax(below != rows))
            raise ValueError(f"{factors.name}[{i}] has {rows[i]} rows and b[{i}] {below[i]}: both need the same number")
        self.orders, self.starts = rows, np.cumsum(rows) - rows
        self.kernel = rows_solver(backend, F._view.dtype, factors.flags, tables, len(rows), self.starts)

    def __call__(self, F: Ragged, pivots: Array, B: Ragged, X: Ragged) -> None:
        flat = None if pivots is None else self._pivots(pivots)
        numbers = 0 if flat is None else int(flat.ctypes.data)
        pointers = (F._view.address, B._view.address, 0, X._view.address, numbers, 0)
        for i in self.kernel(pointers, _NO_SCALING):
            exchanged = None if pivots is None else np.asarray(pivots[i])[None]
            as_numpy(X[i])[...] = self.factors.by_lapack(as_numpy(F[i])[None], exchanged, as_numpy(B[i])[None])[0]

    def _pivots(self, pivots: Array) -> Array:
        """All of them in one array, which the kernel trusts: they are checked here."""
        found = [np.asarray(one) for one in pivots]
        for i, (one, order) in enumerate(zip(found, self.orders.tolist(), strict=True)):
            if one.shape != (order,):
                raise ValueError(f"piv[{i}] has shape {one.shape}, and lu[{i}] {(order, order)}: one pivot per row")
            if one.dtype.kind not in "iu":
                raise TypeError(f"piv[{i}] has dtype {one.dtype}: integers are needed")
        flat = np.ascontiguousarray(np.concatenate(found) if found else np.empty(0), np.int32)
        wrong = (flat < 0) | (flat >= np.repeat(self.orders, self.orders))
        if wrong.any():
            i = int(np.searchsorted(self.starts, int(np.argmax(wrong)), side="right")) - 1
            raise ValueError(f"piv[{i}] names a row that lu[{i}] does not have: pass what lu_factor gave")
        return flat
