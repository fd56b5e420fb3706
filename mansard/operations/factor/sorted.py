"""Factorizations of a ragged batch by one launch per class of sizes, the largest first: what a pair of layouts decides
is found out once, and later calls only launch."""

from __future__ import annotations

from collections.abc import Hashable
from ctypes import c_void_p
from functools import lru_cache, partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...arrays.types import Array
from ...backends import base
from ...backends.beside import several
from ...backends.select import select
from ...errors import LaunchError
from ...kernels.factor.cholesky import FAMILY, defaults, emit, spec
from ...plan import pin
from ...plan.problem import ITEMSIZE
from ...records import database
from .. import ragged_layout, recording
from .. import run as call
from ..batched.gemm_run import _upload
from ..ragged import Ragged, allocate_beside
from ..ragged_kernel import remember
from ..ragged_layout import Layout, scratch, stream_key
from .task import Task

_STEP, _TILES, _WIDE_STEP = 8, 64, 32  # orders of a class differ by less, up to 64 rows, and above


class Launch(NamedTuple):
    """One class: the kernel, and the first of its matrices in the sorted table."""

    run: base.Launch
    first: int


_RUNS: WeakKeyDictionary[Layout, WeakKeyDictionary[Layout, dict[Hashable, SortedRun]]] = WeakKeyDictionary()
_LARGEST: WeakKeyDictionary[Layout, int] = WeakKeyDictionary()
_RESULTS: WeakKeyDictionary[Layout, dict[int, tuple[Layout, int]]] = WeakKeyDictionary()


def factor_sorted(task: Task, backend: str | None, a: Ragged, out: Ragged | None) -> tuple[Ragged, Array] | None:
    """The factors and `info`, or None where this is not the way to answer: there are no kernels, or `out` overlaps `a`
    and is not `a` itself."""
    chosen = select(a._view.device, backend)
    if task != Task("cholesky", "factor", task.upper) or chosen.name not in ("cuda", "emulated") or pin.pins():
        return None
    if not 0 < _largest(a.layout) <= spec.WIDEST[ITEMSIZE[a._view.dtype]]:
        return None
    factors = place_like(a) if out is None else out
    if not apart(a, factors):
        return None
    runs = _RUNS.setdefault(a.layout, WeakKeyDictionary()).setdefault(factors.layout, {})
    aligned = (a._view.address | factors._view.address) % 16 == 0
    key = (task, chosen.name, a._kind, a._view.dtype, a._view.device, aligned)
    if key not in runs:
        check_shapes(factors, a)
        runs[key] = SortedRun(task, chosen, a, factors, aligned)
    return factors, runs[key](a, factors)


def _largest(layout: Layout) -> int:
    """The largest order; 0 where there is none, or a matrix is not square."""
    if layout not in _LARGEST:
        rows, columns, _ = layout.host()
        _LARGEST[layout] = int(rows.max()) if len(rows) and not (rows != columns).any() else 0
    return _LARGEST[layout]


def place_like(a: Ragged) -> Ragged:
    """A place for matrices of the same sizes, each at a multiple of 32 bytes."""
    unit = ragged_layout.ALIGNMENT // ITEMSIZE[a._view.dtype]
    known = _RESULTS.setdefault(a.layout, {})
    if unit not in known:
        known[unit] = ragged_layout.packed(*a.layout.host()[:2], unit)
    return allocate_beside(a, *known[unit])


def apart(a: Ragged, factors: Ragged, replaced: bool = True) -> bool:
    """Whether no result is written where another matrix is read; each may take the place of its own (`replaced`)."""
    low, high = a.layout.reach(len(a.buffer))
    first, last = factors.layout.reach(len(factors.buffer))
    moved = (factors._view.address - a._view.address) // ITEMSIZE[a._view.dtype]
    return first + moved >= high or low >= last + moved or (replaced and moved == 0 and factors.layout is a.layout)


def check_shapes(out: Ragged, wanted: Ragged) -> None:
    """The result's places have its sizes, each its own."""
    if len(out) != len(wanted):
        raise ValueError(f"out has {len(out)} matrices and the result {len(wanted)}")
    found, expected = (np.stack(one.layout.host()[:2], 1) for one in (out, wanted))
    if (found != expected).any():
        i = int(np.argmax((found != expected).any(1)))
        raise ValueError(f"out[{i}] has shape {tuple(found[i].tolist())}, the result {tuple(expected[i].tolist())}")
    twice = out.layout.overlapping()
    if twice:
        raise ValueError(f"out[{twice[0]}] and out[{twice[1]}] overlap: every matrix needs a place of its own")


@lru_cache(maxsize=16)
def bounds(dtype: str) -> Array:
    """The largest order of each class."""
    most = spec.WIDEST[ITEMSIZE[dtype]]
    wide = {*range(_TILES + _WIDE_STEP, most, _WIDE_STEP), most}
    return np.array([*range(_STEP, _TILES + 1, _STEP), *sorted(wide)])


class SortedRun:
    """For one pair of layouts, of which it keeps nothing but the table that kernels read."""

    def __init__(self, task: Task, backend: Any, a: Ragged, factors: Ragged, aligned: bool) -> None:
        self.kind, self.backend, self.stream = a._kind, backend, a._kind.stream_of(a._view.device)
        (rows, _, from_a), (_, _, from_f) = a.layout.host(), factors.layout.host()
        unit = 16 // ITEMSIZE[a._view.dtype]
        aligned = aligned and not ((from_a | from_f) % unit).any()
        classes: Array = np.searchsorted(bounds(a._view.dtype), rows)
        order = np.argsort(np.where(rows > 0, -classes, 1), kind="stable")[: int((rows > 0).sum())]
        self.count, self.complete = len(rows), len(order) == len(rows)
        self.items = np.ascontiguousarray(np.stack([rows, np.arange(self.count), from_a, from_f], 1)[order])
        self.task, self.dtype, self.classes, self.aligned = task, a._view.dtype, classes[order], aligned
        self.launches = self._prepare()
        self._tables: dict[Hashable, Array] = {}
        remember(self)

    def forget(self) -> None:
        """Choose and prepare anew: after tuning. Tables stay: a captured graph may read them."""
        self.launches = []

    def _prepare(self) -> list[Launch]:
        """For matrices that are sorted by their classes. Those of a class stay in the order of the batch: what is at
        work at the same time lies close together in memory."""
        classes, kernels, firsts, limits = self.classes, [], [], bounds(self.dtype)
        for index in np.unique(classes)[::-1].tolist():
            first, last = (int(np.searchsorted(-classes, -index, side)) for side in ("left", "right"))
            problem = spec.problem(
                self.dtype, int(limits[index]), last - first, uplo="upper" if self.task.upper else "lower",
                stack_a="ragged", aligned=self.aligned,
            )  # fmt: skip
            record = database.best(problem, self.backend.device, FAMILY)
            config = (record and record.config) or defaults.default(problem, self.backend.device)
            if config is None:
                raise LaunchError(f"no kernel for {problem}")
            kernels.append(partial(recording.prepared, emit, problem, config, self.backend, (0,) * 12))
            firsts.append(first)
        return [Launch(run, first) for (run, _), first in zip(call.together(kernels), firsts, strict=True)]

    def __call__(self, a: Ragged, factors: Ragged) -> Array:
        """`info`, in the order of the batch; the factors have been written, or will be."""
        info = self.kind.allocate((self.count,), "int32", a.buffer)
        if not self.complete:
            info[...] = 0  # of matrices without entries
        stream = self.stream()
        table = self._table(a, stream)
        given = (a._view.address, factors._view.address, 0, 0, self.kind.address(info))
        launches = self.launches = self.launches or self._prepare()
        with several(self.backend, stream, len(launches)) as streams:
            for i, launch in enumerate(launches):
                launch.run((*given, table + 32 * launch.first), (), streams[i % len(streams)])
        return info

    def _table(self, a: Ragged, stream: int) -> int:
        """Where kernels read the table: uploaded once for each stream, since others are not ordered with the copy."""
        if self.backend.name != "cuda":
            return int(self.items.ctypes.data)
        key = stream_key(stream)
        held = self._tables.get(key)
        if held is None:
            if self.backend.driver.capture_id(c_void_p(stream)):
                raise LaunchError("a graph cannot hold the sizes of a ragged batch: call it once before the capture")
            made = scratch(self.kind, a.buffer, self.items.nbytes)
            _upload(self.backend.driver, self.kind.address(made), self.items.reshape(-1), stream)
            held = self._tables.setdefault(key, made)  # of two threads, the first one's stays
        return int(self.kind.address(held))
