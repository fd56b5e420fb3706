"""Solves of ragged batches with factors that are there already (`cho_solve`, `lu_solve`).

On CPUs exchanges of rows and both triangles are one launch for matrices of all sizes. On GPUs the matrices of a class
are gathered into a stack.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...arrays.types import Array, Kind, Matrices
from ...backends.base import Backend
from ...backends.select import ReferenceBackend, select
from ...plan import pin
from ...plan.problem import ITEMSIZE
from ..batched.ragged_triangular import Pass, flags_of, rows_solver
from ..ragged import Ragged
from ..ragged_classes import divide
from ..ragged_indices import Indices, copy_entries
from ..ragged_kernel import Runs, held_by, pins_reach
from ..ragged_stacks import Compute, Found, Given, StackedRun, Wanted
from ..ragged_vectors import Places, Vectors
from . import lapack, systems
from .plan import as_numpy
from .sorted import apart, check_shapes, place_like

_NO_SCALING = (1.0, 0.0, 0.0, 0.0)
_RUNS: Runs = WeakKeyDictionary()


class Factors(NamedTuple):
    """How A X = B is solved with factors of A."""

    name: str  # of the factors, as an argument
    flags: int  # passes and exchanges of rows, as the kernel reads them
    by_lapack: Callable[[Array, Array, Array], Array]  # (factors, pivots or None, B) -> X, for stacks
    of_stacks: Callable[..., Array]  # (kind, backend, factors, pivots or None, B) -> X, for stacks on GPUs


@lru_cache(maxsize=2)
def cholesky_factors(lower: bool) -> Factors:
    """L L^H X = B, or U^H U X = B."""
    plain, adjoint = Pass(not lower), Pass(not lower, True, True)
    passes = (plain, adjoint) if lower else (adjoint, plain)

    def of_stacks(kind: Kind, backend: str | None, F: Array, pivots: None, B: Array) -> Array:
        return systems.cholesky_solve(kind, F, lower, B, None, backend)

    return Factors("c", flags_of(*passes), lambda F, _, B: lapack.cholesky_solve(F, lower, B), of_stacks)


@lru_cache(maxsize=3)
def lu_factors(trans: int) -> Factors:
    """A X = B with P A = L U, or with the transpose (1) or conjugate transpose (2) of A."""
    turned, conjugated = trans > 0, trans == 2
    low, high = Pass(False, turned, conjugated, True), Pass(True, turned, conjugated)
    passes = (high, low) if turned else (low, high)
    flags = flags_of(*passes, first=not turned, last=turned)

    def of_stacks(kind: Kind, backend: str | None, F: Array, pivots: Array, B: Array) -> Array:
        return systems.lu_solve(kind, F, pivots, B, trans, None, backend)

    return Factors("lu", flags, lambda F, pivots, B: lapack.lu_solve(F, pivots, B, trans), of_stacks)


def solve_with(factors: Factors, backend: str | None, *operands: Matrices) -> tuple[Ragged] | None:
    """The solutions for the factors, their pivots where there are any, B, and `out`; None: not on this backend."""
    F, *pivots, B, out = operands
    chosen = select(F._view.device, backend)
    on_cpu = chosen.name == "cpu"
    if isinstance(chosen, ReferenceBackend) or not (pins_reach() if on_cpu else not pin.pins()):
        return None
    place = place_like(B) if out is None else out
    runs = held_by(_RUNS, F.layout, B.layout, place.layout)
    key = (factors[:2], F._kind, F._view.dtype, F._view.device, backend, chosen.name)
    if key not in runs:
        check_shapes(place, B)
        make = _FactoredRun if on_cpu else partial(_FactoredStacks, backend)
        runs[key] = make(factors, chosen, F, B, place)
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
        rows = self.orders = _orders(factors.name, *tables[:2])
        self.starts = np.cumsum(rows) - rows
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
        if _are_those_of_factors(pivots, self.orders) and pivots.places.is_dense:
            flat = np.ascontiguousarray(pivots.arrays[0][: pivots.places.total], np.int32)
        else:
            found = [np.asarray(one) for one in pivots]
            _check_pivots(found, self.orders)
            flat = np.ascontiguousarray(np.concatenate(found) if found else np.empty(0), np.int32)
        wrong = (flat < 0) | (flat >= np.repeat(self.orders, self.orders))
        if wrong.any():
            i = int(np.searchsorted(self.starts, int(np.argmax(wrong)), side="right")) - 1
            raise ValueError(f"piv[{i}] names a row that lu[{i}] does not have: pass what lu_factor gave")
        return flat


def _orders(name: str, factors: Any, right: Any) -> Array:
    """Orders of the factors, which are square and fit the right-hand sides; from tables of rows, columns, offsets."""
    rows: Array = factors[0]
    columns, below = factors[1], right[0]
    if (rows != columns).any():
        i = int(np.argmax(rows != columns))
        shape = (int(rows[i]), int(columns[i]))
        raise np.linalg.LinAlgError(f"{name}[{i}] has shape {shape}: its last two dimensions must be square")
    if (below != rows).any():
        i = int(np.argmax(below != rows))
        raise ValueError(f"{name}[{i}] has {rows[i]} rows and b[{i}] {below[i]}: both need the same number")
    return rows


def _are_those_of_factors(pivots: Matrices, orders: Array) -> bool:
    """Whether pivots lie in few arrays, as `lu_factor` gives them: each has one integer per row."""
    if not isinstance(pivots, Vectors) or any("int" not in str(one.dtype) for one in pivots.arrays):
        return False
    return np.array_equal(pivots.places.length, orders)


def _check_pivots(pivots: Matrices, orders: Array) -> None:
    """One integer per row of every matrix."""
    shapes, wanted = [tuple(one.shape) for one in pivots], [(order,) for order in orders.tolist()]
    if shapes != wanted:
        i = next(i for i, (found, fits) in enumerate(zip(shapes, wanted, strict=True)) if found != fits)
        raise ValueError(f"piv[{i}] has shape {shapes[i]}, and lu[{i}] {wanted[i] * 2}: one pivot per row")
    for dtype in {one.dtype for one in pivots}:
        if "int" not in str(dtype):
            i = next(i for i, one in enumerate(pivots) if one.dtype == dtype)
            raise TypeError(f"piv[{i}] has dtype {dtype}: integers are needed")


# ---- on GPUs ----------------------------------------------------------------------------------------------


class _FactoredStacks:
    """Solves with stacks of factors, class by class; it holds nothing of the layouts but tables."""

    def __init__(self, name: str | None, factors: Factors, backend: Backend, F: Ragged, B: Ragged, X: Ragged) -> None:
        tables = [one.layout.host() for one in (F, B, X)]
        self.orders = _orders(factors.name, *tables[:2])
        kind, dtype, right = F._kind, F._view.dtype, tables[1][1]
        classes = divide(np.stack([self.orders, self.orders, right], 1), ITEMSIZE[dtype])

        def run(stacks: list[Array], number: int, F: Ragged, pivots: Array) -> Found:
            exchanged = None if pivots is None else pivots[self.exchanges[number].beside(F)]
            return {"X": factors.of_stacks(kind, name, stacks[0], exchanged, stacks[1])}

        given = [Given(tables[0], ones=0), Given(tables[1], (0, 2))]
        wanted = {"X": Wanted(tables[2], lambda bounds: bounds[1:])}
        self.run = StackedRun(kind, backend, dtype, F._view.device, Compute(run), classes, given, wanted)
        self.kind, self.widest = kind, max((one.bounds[0] for one in classes), default=0)
        self.joins: WeakKeyDictionary[Places, Indices] = WeakKeyDictionary()  # of pivots that lie in several arrays
        self.exchanges = [self._exchanges(one.members, one.stacks[0][1][1]) for one in self.run.pieces]

    def _exchanges(self, members: Array, order: int) -> Indices:
        """Where the pivots of a stack are in `_pivots`: rows of the padding are exchanged with themselves."""
        starts, row = np.cumsum(self.orders) - self.orders, np.arange(order)
        inside = row[None] < self.orders[members][:, None]
        return Indices(np.where(inside, starts[members][:, None] + row, int(self.orders.sum()) + row), None, None)

    def __call__(self, F: Ragged, pivots: Array, B: Ragged, X: Ragged) -> None:
        flat = None
        if pivots is not None:
            # of one dtype: CuPy joins those at once
            own = self.kind.astype(self.kind.arange(self.widest, F.buffer), "int32")
            flat = self.kind.astype(self.kind.module.concatenate([*self._joined(F, pivots), own]), "int32")
        self.run([F, B], {"X": X}, F, flat)

    def _joined(self, F: Ragged, pivots: Matrices) -> list[Array]:
        """Pivots of all matrices, one after the other: of `lu_factor`'s vectors one array."""
        if not _are_those_of_factors(pivots, self.orders):
            _check_pivots(pivots, self.orders)
            return list(pivots)
        places, lengths = pivots.places, [len(one) for one in pivots.arrays]
        if places not in self.joins:
            self.joins[places] = Indices(places.indices(lengths), None, None)
        return [pivots.joined(self.kind, lambda: self.joins[places].beside(F))]
