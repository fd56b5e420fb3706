"""Factorizations of a ragged batch on a GPU, one launch per size: kernels read and write matrices where they are, by
tables of addresses. Which sizes there are, and where, is found out once for layouts that belong together; a call adds
the addresses of the buffers, on the device, and launches."""

from __future__ import annotations

from collections.abc import Hashable
from ctypes import c_void_p
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np

from ...arrays.types import Array, Matrices
from ...backends.base import Backend, Launch
from ...backends.beside import several
from ...backends.select import ReferenceBackend, select
from ...errors import LaunchError
from ...kernels.common.batches import POINTERS
from ...plan import pin
from ...plan.problem import ITEMSIZE, Options
from .. import run as call
from ..batched.gemm_run import _upload
from ..ragged import Ragged
from ..ragged_kernel import remember
from ..ragged_layout import Layout, stream_key
from .kernel import STRIDED, family_of
from .ragged_rows import factor_rows
from .sorted import apart, check_shapes, factor_sorted, place_like
from .task import Task, empty, library

_RESULT = {("cholesky", "solve"): "X", ("lu", "factor"): "F", ("lu", "solve"): "X", ("lu", "inverse"): "F"}
_RUNS: WeakKeyDictionary[Layout, WeakKeyDictionary[Layout, dict[Hashable, GroupedRun]]] = WeakKeyDictionary()


class Group(NamedTuple):
    """Matrices of one size: the kernel, and where they begin in the tables and among the pivots."""

    launch: Any
    first: int
    matrices: int
    pivots: int
    each: int  # pivots of a matrix


def factor_ragged(task: Task, backend: str | None, *operands: Matrices) -> tuple[Matrices, ...] | None:
    """The parts of the task's result for A, or A and B, and `out`; None where this is not the way to answer."""
    *given, out = operands
    chosen = select(given[0]._view.device, backend)
    if chosen.name == "cpu":
        return factor_rows(task, chosen, given, out)
    if (task.family, task.want) == ("cholesky", "factor"):
        return factor_sorted(task, backend, given[0], out)
    if (task.family, task.want) not in _RESULT or isinstance(chosen, ReferenceBackend) or pin.pins():
        return None
    result = place_like(given[-1]) if out is None else out
    if not all(apart(one, result, one is given[-1]) for one in given):
        return None
    run = _run(task, chosen, given, result)
    return run(given, result) if run.is_ready() else None


def _run(task: Task, backend: Backend, given: list[Ragged], result: Ragged) -> GroupedRun:
    """The one made before, or a new one."""
    runs = _RUNS.setdefault(given[0].layout, WeakKeyDictionary()).setdefault(result.layout, {})
    first, aligned = given[0], all(one._view.address % 16 == 0 for one in (*given, result))
    key = (task, backend.name, first._kind, first._view.dtype, first._view.device, aligned)
    run = runs.get(key)
    if run is None or run.other() is not given[-1].layout:
        check_shapes(result, given[-1])
        run = runs[key] = GroupedRun(task, backend, given, result, aligned)
    return run


class GroupedRun:
    """For layouts that belong together, of which it keeps nothing but tables."""

    def __init__(self, task: Task, backend: Any, given: list[Ragged], result: Ragged, aligned: bool) -> None:
        self.task, self.backend, self.kind = task, backend, given[0]._kind
        self.dtype, self.stream = given[0]._view.dtype, given[0]._kind.stream_of(given[0]._view.device)
        self.other = ref(given[-1].layout)
        self.names = ("A", "B", "X") if task.want == "solve" else ("A", _RESULT[task.family, task.want])
        layouts = [one.layout.host() for one in (*given, result)]
        rows, columns, _ = layouts[0]
        right = layouts[1][1] if task.want == "solve" else np.zeros_like(rows)
        self.count = len(rows)
        self.groups: list[Group] = []
        self._held: dict[Hashable, Any] = {}
        square = (task.family, task.want) == ("lu", "factor") or not (rows != columns).any()
        fitting = task.want != "solve" or not (layouts[1][0] != rows).any()
        some = self.count and min(rows.min(), columns.min(), 1 if task.want != "solve" else right.min()) > 0
        self.usable = bool(square and fitting and some)
        if self.usable:
            order = np.lexsort((right, columns, rows))[::-1]
            self._sort(order, [table[2] for table in layouts])
            self.aligned, self.sizes = aligned, np.stack([rows, columns, right], 1)[order]
            self._prepare()
            remember(self)

    def is_ready(self) -> bool:
        """Whether there is a kernel for every size; prepares them where they were forgotten."""
        if self.usable and not self.groups:
            self._prepare()
        return self.usable

    def forget(self) -> None:
        """Choose and prepare anew: after tuning. Tables stay: a captured graph may read them."""
        self.groups = []

    def _sort(self, order: Array, offsets: list[Array]) -> None:
        """Tables in the order of the launches: the largest sizes come first."""
        item = ITEMSIZE[self.dtype]
        self.order, self.back = order, np.argsort(order)
        self.tables = {name: one[order] * item for name, one in zip(self.names, offsets, strict=True)}

    def _prepare(self) -> list[Group]:
        """The groups of matrices of one size; not `usable` if there is no kernel for one of them."""
        aligned, sizes = self.aligned, self.sizes
        starts = np.flatnonzero(np.r_[True, (sizes[1:] != sizes[:-1]).any(1)]).tolist()
        makers, parts = [], list(zip(starts, [*starts[1:], self.count], strict=True))
        for first, last in parts:
            whole = aligned and not any((table[first:last] % 16).any() for table in self.tables.values())
            M, N, right = map(int, sizes[first])
            makers.append(partial(self._launch, M, N, right, last - first, whole))
        launches = call.together(makers)
        self.usable, pivots, groups = self.usable and None not in launches, 0, []
        for launch, (first, last) in zip(launches, parts, strict=True):
            each = int(sizes[first, :2].min())
            groups.append(Group(launch, first, last - first, pivots, each))
            pivots += (last - first) * each
        self.groups, self.pivots = groups, pivots
        return groups

    def _launch(self, M: int, N: int, right: int, count: int, aligned: bool) -> Launch | None:
        """The kernel of one size; None if there is none, or none is wanted."""
        task, family = self.task, family_of(self.task.family)
        traits: Options = {f"stack_{name.lower()}": "pointers" for name in self.names}
        traits |= {"uplo": "upper" if task.upper else "lower"} if task.family == "cholesky" else {"pivot": task.pivot}
        sizes = (N,) if task.family == "cholesky" else (M, N)
        problem = family.spec.problem(
            self.dtype, *sizes, count, NRHS=right, want=task.want, aligned=aligned, **traits
        )  # fmt: skip
        strides: tuple[int, ...] = ()
        for name in STRIDED[task.family]:
            strides += (0, right if name in "BX" else N, 1) if name in self.names else (0, 0, 0)
        return call.prepare(family.emit, problem, self.backend, strides)[0]

    def __call__(self, given: list[Ragged], result: Ragged) -> tuple[Matrices, ...]:
        like, address, groups = given[0].buffer, self.kind.address, self.groups or self._prepare()
        stream = self.stream()
        held = self._tables(like, stream)
        at = {name: held[name] + one._view.address for name, one in zip(self.names, (*given, result), strict=True)}
        flat = {"INFO": empty(self.kind, (self.count,), "int32", like)}
        if "PIVOTS" in self.task.parts:
            flat["PIVOTS"] = empty(self.kind, (self.pivots,), "int32", like)
        first = {name: address(one) for name, one in (at | flat).items()}
        with several(self.backend, stream, len(groups)) as streams:
            for i, group in enumerate(groups):
                moved = {"INFO": 4 * group.first, "PIVOTS": 4 * group.pivots}
                pointers = tuple(
                    first[name] + moved.get(name, 8 * group.first) if name in first else 0
                    for name in POINTERS[self.task.family]
                )
                group.launch(pointers, (), streams[i % len(streams)])
        info = flat["INFO"][held["back"]]
        return (result, self._rows(groups, flat["PIVOTS"]), info) if "PIVOTS" in flat else (result, info)

    def _rows(self, groups: list[Group], pivots: Array) -> list[Array]:
        """Pivots of every matrix, in the order of the batch."""
        found: list[Array] = [None] * self.count
        for group in groups:
            some = pivots[group.pivots : group.pivots + group.matrices * group.each].reshape(group.matrices, group.each)
            for i, row in zip(self.order[group.first : group.first + group.matrices].tolist(), some, strict=True):
                found[i] = row
        return found

    def _tables(self, like: Array, stream: int) -> dict[str, Array]:
        """Offsets in bytes, and the order of the batch; on a GPU they are uploaded once for each stream."""
        every = self.tables | {"back": self.back}
        if self.backend.name != "cuda":
            return {name: self._array(one) for name, one in every.items()} if self.kind.name == "PyTorch" else every
        key = stream_key(stream)
        if key not in self._held:
            if self.backend.driver.capture_id(c_void_p(stream)):
                raise LaunchError("a graph cannot hold the sizes of a ragged batch: call it once before the capture")
            made = {name: empty(self.kind, (self.count,), "int64", like) for name in every}
            for name, one in every.items():
                _upload(self.backend.driver, self.kind.address(made[name]), np.ascontiguousarray(one), stream)
            self._held[key] = made
        return self._held[key]  # type: ignore[no-any-return]

    def _array(self, table: Array) -> Array:
        return library(self.kind).from_numpy(np.ascontiguousarray(table))
