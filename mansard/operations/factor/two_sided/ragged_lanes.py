"""Two-sided factorizations of ragged batches on CPUs: one kernel for matrices of all sizes, LAPACK for the others.

The kernel (`jacobi`, kernel_ragged.hpp) takes as many matrices at a time as a vector has lanes, sorted by their order,
and learns their sizes from a table. Wide matrices are read as their adjoints; tall ones are padded with columns of
zeros, as long as they are not much taller than wide. LAPACK's matrices are stacks of one shape, which threads share.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from .... import settings
from ....arrays.kinds import KINDS
from ....arrays.types import Array, Matrices
from ....backends.base import Backend, Launch
from ....kernels.factor.jacobi import emit, rivals, spec
from ....plan import dispatch
from ....plan.factor_rules import LEAST
from ....plan.problem import ITEMSIZE, REAL, Problem
from ... import ragged_layout
from ... import run as call
from ...ragged import Ragged, allocate_beside
from ...ragged_kernel import Runs, held_by, remember
from ...ragged_vectors import Places, Vectors
from ...recording import prepared
from ..plan import as_numpy
from ..task import Found, zeros
from . import library
from .task import Task

MATRICES = ("Z", "U", "VH")
_TALL = 1.5  # rows per column up to which padding to a square costs less than LAPACK
_RUNS: Runs = WeakKeyDictionary()


def by_lanes(task: Task, backend: Backend, A: Ragged, is_named: bool) -> tuple[Matrices, ...] | None:
    """The parts of the task's result, with the kernel wherever it can if its backend was named; None where matrices are
    empty, or not square and Hermitian."""
    runs = held_by(_RUNS, A.layout)
    key: Hashable = (task, is_named, A._kind, A._view.dtype, settings.current().threads)
    if key not in runs:
        rows, columns, _ = A.layout.host()
        usable = len(rows) and min(rows.min(), columns.min()) and not (task.is_hermitian and (rows != columns).any())
        runs[key] = LanesRun(task, backend, A, is_named) if usable else None
    return None if runs[key] is None else runs[key](A)


class _Prepared(NamedTuple):
    """A launch, its table, and the matrices that it leaves to LAPACK, by shape."""

    launch: Launch | None  # None: every matrix is LAPACK's
    items: Array
    others: list[Array]


class LanesRun:
    """One task for one layout, of which it holds nothing but tables."""

    def __init__(self, task: Task, backend: Backend, A: Ragged, is_named: bool) -> None:
        self.task, self.backend, self.is_named = task, backend, is_named
        self.kind, self.dtype = A._kind, A._view.dtype
        self.rows, self.columns, self.source = (np.asarray(one) for one in A.layout.host())
        orders = np.minimum(self.rows, self.columns)
        self.places = Places.dense(orders)
        tall, wide = (self.rows, self.columns) if task.full else (orders, orders)
        shapes = {"Z": (self.rows, self.rows), "U": (self.rows, tall), "VH": (wide, self.columns)}
        unit = ragged_layout.ALIGNMENT // ITEMSIZE[self.dtype]
        self.layouts = {part: ragged_layout.packed(*shapes[part], unit) for part in task.parts if part in MATRICES}
        self._prepared: _Prepared | None = None
        remember(self)

    def forget(self) -> None:
        """Choose and prepare anew: after tuning."""
        self._prepared = None

    def __call__(self, A: Ragged) -> tuple[Matrices, ...]:
        kind, like, address = self.kind, A.buffer, self.kind.address
        if self._prepared is None:
            self._prepared = self._prepare()
        launch, items, others = self._prepared
        made: dict[str, Ragged] = {part: allocate_beside(A, *layout) for part, layout in self.layouts.items()}
        values = kind.allocate((self.places.total,), REAL[self.dtype], like)
        info = zeros(kind, (len(self.rows),), "int32", like)
        if launch is not None:
            left, right = (made.get(one) for one in ("Z" if "Z" in made else "U", "VH"))
            pointers = (A._view.address, address(values), *(one._view.address if one else 0 for one in (left, right)))
            launch((*pointers, address(info), int(items.ctypes.data)), (), 0)
        self._by_lapack(A, others, made | {"W": values, "INFO": info})
        parts = made | {"W": Vectors([values], self.places), "INFO": info}
        return tuple(parts[part] for part in self.task.parts)

    # ---- whose matrices they are --------------------------------------------------------------------------

    def _prepare(self) -> _Prepared:
        largest, order = np.maximum(self.rows, self.columns), np.minimum(self.rows, self.columns)
        inside = (largest <= spec.LARGEST_OF_ANY) & (largest <= _TALL * order)
        some = np.flatnonzero(inside)
        some = some[np.argsort(-largest[some], kind="stable")]
        problem = self._problem(int(largest[some].max()), len(some)) if len(some) else None
        if problem is None or not self._is_worth(problem, largest[some]):
            return _Prepared(None, None, self._by_shape(np.arange(len(self.rows))))
        config = dispatch.choose(problem, self.backend.device).config
        if config is None:
            return _Prepared(None, None, self._by_shape(np.arange(len(self.rows))))
        launch, _ = prepared(emit, problem, config, self.backend)
        return _Prepared(launch, self._items(some), self._by_shape(np.flatnonzero(~inside)))

    def _problem(self, order: int, count: int) -> Problem | None:
        if self.task.driver != "auto":
            return None
        return spec.problem(self.dtype, order, count, want=self.task.want, method="any", stack_a="ragged")

    def _is_worth(self, problem: Problem, orders: Array) -> bool:
        """Whether the kernel is faster than LAPACK for matrices of these orders, which descend."""
        return self.is_named or rivals.lapack_reason(problem, orders.tolist(), self.backend.device, LEAST) is None

    def _items(self, some: Array) -> Array:
        """`LanesItem` of these matrices."""
        rows, columns = self.rows[some], self.columns[some]
        wide, one = rows < columns, np.ones(len(some), np.int64)
        m, n = np.maximum(rows, columns), np.minimum(rows, columns)
        lower = self.task.is_hermitian and not self.task.upper  # read by columns: the kernel takes the upper triangle
        exchanged = wide | lower
        left = self._place("Z" if "Z" in self.layouts else "U", some), self._width("U", some, n)
        right = self._place("VH", some), columns
        left = left if "U" in self.layouts or not self.task.is_hermitian else (left[0], n)
        # U has its vectors in columns, VH in rows; of an adjoint they change places
        table = (
            m, n, some, self.places.first[some],
            self.source[some], np.where(exchanged, one, columns), np.where(exchanged, columns, one),
            np.where(wide, right[0], left[0]), np.where(wide, one, left[1]), np.where(wide, right[1], one),
            np.where(wide, left[0], right[0]), np.where(wide, left[1], one), np.where(wide, one, right[1]),
            m if self.task.full else n, wide, exchanged,
        )  # fmt: skip
        return np.ascontiguousarray(np.stack([np.asarray(each, np.int64) for each in table], 1))

    def _place(self, part: str, some: Array) -> Array:
        return self.layouts[part][0].host()[2][some] if part in self.layouts else np.zeros(len(some), np.int64)

    def _width(self, part: str, some: Array, otherwise: Array) -> Array:
        return self.layouts[part][0].host()[1][some] if part in self.layouts else otherwise

    # ---- LAPACK -------------------------------------------------------------------------------------------

    def _by_shape(self, some: Array) -> list[Array]:
        """These matrices, those of one shape together, in as many pieces as threads may take."""
        shapes = self.rows[some] * (self.columns.max() + 1) + self.columns[some]
        found = [some[shapes == shape] for shape in np.unique(shapes)[::-1]]
        threads = settings.current().threads
        return [part for one in found for part in np.array_split(one, min(threads, len(one)))]

    def _by_lapack(self, A: Ragged, others: list[Array], made: Found) -> None:
        """Fill in the parts of matrices that the kernel does not take."""
        if not others:
            return
        buffer = as_numpy(A.buffer)
        results = {part: as_numpy(one.buffer if isinstance(one, Ragged) else one) for part, one in made.items()}
        makers = [partial(self._one_shape, buffer, some, results) for some in others]
        small = [make for make, some in zip(makers, others, strict=True) if self._is_for_one_core(some)]
        for make, some in zip(makers, others, strict=True):
            if not self._is_for_one_core(some):  # the BLAS below has threads of its own
                make()
        threads = max(1, min(settings.current().threads, len(small)))
        call.together([partial(_each, small[i::threads]) for i in range(threads)] if small else [])

    def _is_for_one_core(self, some: Array) -> bool:
        return bool(max(self.rows[some[0]], self.columns[some[0]]) <= library.ONE_CORE)

    def _one_shape(self, buffer: Array, some: Array, results: Found) -> None:
        shape = int(self.rows[some[0]]), int(self.columns[some[0]])
        stack = buffer[_entries(self.source[some], shape)].reshape(-1, *shape)
        found = library.answer_alone(KINDS["numpy"], self.task, stack)
        for part, one in found.items():
            if part == "INFO":
                results[part][some] = one
            else:
                first = self.places.first if part == "W" else self.layouts[part][0].host()[2]
                results[part][_entries(first[some], one.shape[1:])] = one.reshape(len(some), -1)


def _entries(first: Array, shape: tuple[int, ...]) -> Array:
    """Where entries of matrices of one shape are that begin at `first`."""
    return first[:, None] + np.arange(int(np.prod(shape)))


def _each(makers: list[partial[None]]) -> None:
    for make in makers:
        make()
