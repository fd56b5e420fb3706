"""Ragged batches on CPUs: launches of kernels that learn the sizes of every matrix at run time.

One kernel per method and dtype (`kernels/factor/ragged_factor`) does matrices of all sizes, the largest first. Matrices
beyond its widest class are LAPACK's, one after the other.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from ..arrays.types import Array
from ..backends.base import Backend, Launch
from ..kernels.factor import ragged_factor
from ..kernels.factor.ragged_factor import emit, space_cpu, spec
from ..plan import pin
from ..plan.dispatch import choose
from . import recording
from .plans import forgets
from .ragged_layout import Layout

_PARAMETERS = {"VARIANT", *ragged_factor.space.to_dict(space_cpu.Rows())}
_VARIANTS = {space_cpu.Rows.VARIANT, "vendor"}
_RIGHT = 8  # right-hand sides per unknown of the widest matrix, beyond which LAPACK answers: workspaces stay small


# ---- runs that belong to layouts --------------------------------------------------------------------------

_ALIVE: WeakSet[Any] = WeakSet()  # runs of ragged batches; each has a method `forget`
Runs = WeakKeyDictionary[Layout, Any]


def remember(run: Any) -> Any:
    """Register a run, so that its launches are forgotten with all plans; its tables stay, which graphs may read."""
    _ALIVE.add(run)
    return run


@forgets
def _forget() -> None:
    for run in list(_ALIVE):
        run.forget()


def held_by(runs: Runs, *layouts: Layout) -> dict[Hashable, Any]:
    """Runs of these layouts, for as long as all of them live."""
    table: Any = runs
    for layout in layouts[:-1]:
        found = table.get(layout)
        table = table.setdefault(layout, WeakKeyDictionary()) if found is None else found
    return table.setdefault(layouts[-1], {})  # type: ignore[no-any-return]


def pins_reach() -> bool:
    """Whether what is pinned are parameters of these kernels; others are those of kernels for one size."""
    pinned = pin.pins()
    return not pinned or (set(pinned) <= _PARAMETERS and pinned.get("VARIANT", "rows") in _VARIANTS)


# ---- launches -----------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """Rows, columns and right-hand sides of every matrix, and what stands beside its rows in the workspace."""

    rows: Array
    columns: Array
    right: Array
    beside: Array


class _Prepared(NamedTuple):
    launch: Launch | None  # None: no matrix is the kernel's
    items: Array
    wide: list[int]  # matrices that are LAPACK's


class RowsKernel:
    """One method on the matrices of a batch, for places that are offsets (in elements) into buffers."""

    def __init__(
        self, backend: Backend, dtype: str, method: str, want: int, flags: int, sizes: Sizes, places: dict[str, Array],
        some: Array,
    ) -> None:  # fmt: skip
        self.backend, self.dtype, self.method, self.fixed, self.sizes = backend, dtype, method, (want, flags), sizes
        self.some, self.is_complete = some, bool(some.all())  # matrices that have entries
        count, none = len(sizes.rows), np.zeros(len(sizes.rows), np.int64)
        columns = (*sizes[:3], np.arange(count), *(places.get(name, none) for name in ("numbers", *"abfx")))
        self.items = np.stack([np.broadcast_to(one, (count,)) for one in columns], 1).astype(np.int64)
        self._prepared: dict[Hashable, _Prepared] = {}
        remember(self)

    def forget(self) -> None:
        """Choose and prepare anew: after tuning."""
        self._prepared.clear()

    def __call__(self, pointers: tuple[int, ...], scaling: tuple[float, ...]) -> list[int]:
        """Launch for the addresses of A, B, F, X, pivots or tau, and info; returns the matrices left to LAPACK."""
        key = tuple(pin.pins().items())
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = self._prepare()
        if prepared.launch is not None:
            prepared.launch((*pointers, int(prepared.items.ctypes.data)), scaling, 0)
        return prepared.wide

    def _prepare(self) -> _Prepared:
        sizes, device = self.sizes, self.backend.device
        problem = spec.problem(self.dtype, max(1, len(self.items)), method=self.method)
        config = choose(problem, device).config  # None: the library was pinned
        widest = 0 if config is None else config.WIDEST
        largest = np.maximum(sizes.rows, sizes.columns)
        inside = self.some & (largest <= widest) & (sizes.right <= _RIGHT * widest)
        wide = np.flatnonzero(self.some & ~inside).tolist()
        order = np.flatnonzero(inside)
        if not len(order):
            return _Prepared(None, None, wide)
        order = order[np.argsort(-largest[order], kind="stable")]
        rows, columns, _, beside = (np.broadcast_to(one, largest.shape)[order] for one in sizes)
        reals = space_cpu.reals(problem, int(rows.max()), int(columns.max()), int(beside.max()))
        least = np.minimum(rows, columns)
        solves = rows * least * beside
        products = int((solves // 2 if self.method == "triangle" else rows * columns * least // 3 + solves).sum())
        strides = (*self.fixed, reals, products)
        launch, _ = recording.prepared(emit, problem.replace(BATCH=len(order)), config, self.backend, strides)
        return _Prepared(launch, np.ascontiguousarray(self.items[order]), wide)
