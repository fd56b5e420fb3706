"""Factorizations of a ragged batch on a GPU, one kernel per size class (`ragged_classes`).

Matrices of a padded class go through stacks (`ragged_stacks`). Those of a class with one shape are read and written
where they are, by tables of addresses, if their kernels take such tables. Which classes there are, and where, is found
out once for layouts that belong together; a call adds the addresses of the buffers, on the device, and launches.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...arrays.types import Array, Matrices
from ...backends.base import Backend
from ...backends.select import ReferenceBackend, select
from ...plan import pin
from ...plan.problem import ITEMSIZE
from .. import ragged_layout
from ..ragged import Ragged, allocate_beside
from ..ragged_classes import SizeClass, divide
from ..ragged_copy import is_capturing
from ..ragged_indices import Indices, copy_entries
from ..ragged_kernel import Runs, held_by, remember
from ..ragged_stacks import Compute, Given, StackedRun, Wanted
from ..ragged_vectors import Places, Vectors
from .plan import factor, planned
from .ragged_in_place import TASKS, InPlaceRun
from .ragged_rows import SHAPES, factor_rows
from .sorted import apart, check_shapes, factor_sorted
from .task import Found, Sizes, Task, dtype_of

_RUNS: Runs = WeakKeyDictionary()


def factor_ragged(task: Task, backend: str | None, *operands: Matrices) -> tuple[Matrices, ...] | None:
    """The parts of the task's result for A, or A and B, and `out`; None where this is not the way to answer."""
    *given, out = operands
    chosen = select(given[0]._view.device, backend)
    if chosen.name == "cpu":
        return factor_rows(task, chosen, given, out)
    if (task.family, task.want) == ("cholesky", "factor"):
        found = factor_sorted(task, backend, given[0], out)
        if found is not None:
            return found
    if (task.family, task.want) not in SHAPES or isinstance(chosen, ReferenceBackend) or pin.pins():
        return None
    run = class_run(task, backend, chosen, given, out)
    if not run.is_usable:
        return None
    if out is not None and not all(apart(one, out, one is given[-1]) for one in given):
        found = run.beside(given)
        copy_entries(out, found[0])
        return (out, *found[1:])
    return run(given, out)


def class_run(task: Task, name: str | None, backend: Backend, given: list[Ragged], out: Ragged | None) -> ClassRun:
    """The run made before for these layouts, or a new one. `name` of the backend: as the caller gave it."""
    a, last = given[0], given[-1]
    runs = held_by(_RUNS, a.layout, last.layout, (last if out is None else out).layout)
    aligned = all(one._view.address % 16 == 0 for one in (*given, *(() if out is None else (out,))))
    key = (task, name, backend.name, a._kind, a._view.dtype, a._view.device, out is None, aligned)
    if key not in runs:
        runs[key] = ClassRun(task, name, backend, given, out, aligned)
    return runs[key]  # type: ignore[no-any-return]


class ClassRun:
    """One task for layouts that belong together, of which it holds nothing but tables."""

    def __init__(
        self, task: Task, name: str | None, backend: Backend, given: list[Ragged], out: Ragged | None, aligned: bool
    ) -> None:
        first = given[0]
        self.task, self.name, self.backend, self.aligned = task, name, backend, aligned
        self.kind, self.dtype, self.device = first._kind, first._view.dtype, first._view.device
        self.given = [one.layout.host() for one in given]
        rows, columns, _ = self.given[0]
        right = self.given[1][1] if len(given) > 1 else np.zeros_like(rows)
        is_square = task.family == "qr" or (task.family, task.want) == ("lu", "factor") or not (rows != columns).any()
        self.is_usable = bool(len(rows) and is_square and (len(given) < 2 or not (self.given[1][0] != rows).any()))
        if not self.is_usable:
            return
        self.steps, self.count = np.minimum(rows, columns), len(rows)
        unit = ragged_layout.ALIGNMENT // ITEMSIZE[self.dtype]
        self.layouts = {
            part: ragged_layout.packed(*shape(rows, columns, right), unit)
            for part, shape in SHAPES[task.family, task.want].items()
        }
        self.placed = None
        if out is not None:
            check_shapes(out, allocate_beside(first, *self.layouts[task.parts[0]]))
            self.placed = out.layout.host()
        # steps beyond a rectangular matrix find columns of zeros
        self.limits = Indices(self.steps.astype(np.int32), None, None) if (rows != columns).any() else None
        self.classes = divide(np.stack([rows, columns, right], 1), ITEMSIZE[self.dtype])
        self._places: Places | None = None  # of pivots or tau
        self._forgotten: list[Any] = []
        self._captured: list[Array] = []  # memory that graphs read and write
        self.stream = self.kind.stream_of(self.device)
        self.stages: list[InPlaceRun | StackedRun] = []
        remember(self)

    def forget(self) -> None:
        """Choose and prepare anew: after tuning. Tables stay: a captured graph may read them."""
        self._forgotten.append(self.stages)
        self.stages, self._places = [], None

    def _build(self) -> list[InPlaceRun | StackedRun]:
        """Classes in place where there are kernels for that; others by stacks."""
        task = self.task
        stages: list[InPlaceRun | StackedRun] = []
        tables = {part: layout.host() for part, (layout, _) in self.layouts.items()}
        if self.placed is not None:
            tables[task.parts[0]] = self.placed
        others = self.classes
        if (task.family, task.want) in TASKS:
            alone = [one for one in others if not one.is_padded and min(_needed(task, one)) > 0]
            offsets = [table[2] for table in (*self.given, tables[task.parts[0]])]
            in_place = InPlaceRun(
                task, self.kind, self.backend, self.dtype, self.device, alone, offsets, self.aligned
            )  # fmt: skip
            others = [one for one in others if not any(one.members is other for other in in_place.members)]
            stages.append(in_place)
        if others:
            stages.append(self._stacked(others, tables))
        stages = [one for one in stages if one.members]
        order = np.concatenate([members for stage in stages for members in stage.members])
        self.back = None if (order == np.arange(self.count)).all() else Indices(np.argsort(order), None, None)
        self.stages = stages
        return stages

    def _stacked(self, classes: list[SizeClass], tables: dict[str, Any]) -> StackedRun:
        task, kind, name = self.task, self.kind, self.name
        given = [Given(self.given[0], (0, 1), 0), *(Given(one, (0, 2)) for one in self.given[1:])]

        def shape(part: str, bounds: tuple[int, int, int]) -> Any:
            return Sizes(*bounds).shape(task, part)

        wanted = {
            part: Wanted(table, partial(shape, part), task.want == "raw" and part == "F")
            for part, table in tables.items()
        }  # fmt: skip

        def run(stacks: list[Array], number: int) -> Found:
            return dict(factor(task, kind, stacks[0], stacks[1] if len(stacks) > 1 else None, None, name))

        def prepare(stacks: list[Array]) -> object:
            return planned(task, kind, stacks[0], stacks[1] if len(stacks) > 1 else None, {}, name, False)

        return StackedRun(kind, self.backend, self.dtype, self.device, Compute(run, prepare), classes, given, wanted)

    def beside(self, given: list[Ragged]) -> tuple[Matrices, ...]:
        """Results in new memory, for calls whose `out` overlaps an operand."""
        return class_run(self.task, self.name, self.backend, given, None)(given, None)

    def __call__(self, given: list[Ragged], out: Ragged | None) -> tuple[Matrices, ...]:
        results = {part: allocate_beside(given[0], *layout) for part, layout in self.layouts.items()}
        if out is not None:
            results[self.task.parts[0]] = out
        stages = self.stages or self._build()
        found = [one for stage in stages for one in stage(given, results)]
        members = [one for stage in stages for one in stage.members]
        return tuple(
            results[part] if part in results
            else self._rows(members, [one[part] for one in found if part in one]) if part in ("PIVOTS", "TAU")
            else self._numbers(given[0], part, [one[part] for one in found if part in one])
            for part in self.task.parts
        )  # fmt: skip

    def _rows(self, members: list[Array], found: list[Array]) -> Vectors:
        """Pivots or tau of every matrix, in the order of the batch: parts of the arrays of the classes."""
        if self._places is None:
            self._places = Places.of_stacks(members, [stack.shape[1] for stack in found], self.steps)
        return Vectors([stack.reshape(-1) for stack in found], self._places)

    def _numbers(self, like: Ragged, part: str, found: list[Array]) -> Array:
        """One number per matrix, in the order of the batch."""
        every, first = found[0], 0
        if len(found) > 1:  # no concatenation: CuPy would upload addresses, which a graph cannot hold
            every = self.kind.allocate((self.count,), dtype_of(self.task, part, self.dtype), like.buffer)
            for some in found:
                every[first : first + len(some)] = some
                first += len(some)
            if self.back is not None and is_capturing(self.backend, self.stream()):
                self._captured.append(every)
        if self.back is not None:
            every = every[self.back.beside(like)]
        if part == "INFO" and self.limits is not None:
            every = every * (every <= self.limits.beside(like))
        return every


def _needed(task: Task, one: SizeClass) -> tuple[int, ...]:
    """Sizes of which none may be zero for a kernel."""
    return one.bounds if task.want == "solve" else one.bounds[:2]
