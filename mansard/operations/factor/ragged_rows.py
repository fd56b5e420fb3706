"""Factorizations of ragged batches on CPUs by kernels that learn every size at run time: no compile and no launch per
order. Results do not depend on what else is in the batch."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np

from ...arrays.types import Array
from ...backends.base import Backend
from ...kernels.factor.ragged_factor.spec import WANTS
from ...plan.problem import ITEMSIZE, REAL
from .. import ragged_layout
from ..ragged import Ragged, allocate_beside
from ..ragged_indices import copy_entries
from ..ragged_kernel import RowsKernel, Runs, Sizes, held_by, pins_reach
from ..ragged_vectors import Places, Vectors
from . import lapack
from .plan import as_numpy
from .sorted import apart, check_shapes
from .task import Found, Task, dtype_of

_NO_SCALING = (1.0, 0.0, 0.0, 0.0)
_RUNS: Runs = WeakKeyDictionary()


def factor_rows(task: Task, backend: Backend, given: list[Ragged], out: Ragged | None) -> tuple[Array, ...] | None:
    """The parts of the task's result, `out` the first of them; None where pinned parameters are of other kernels."""
    if not pins_reach() or task.want not in WANTS[task.family]:
        return None
    a, last = given[0], given[-1]
    runs = held_by(_RUNS, a.layout, last.layout, (last if out is None else out).layout)
    key = (task, out is None, a._kind, a._view.dtype)
    if key not in runs:
        runs[key] = FactorRun(task, backend, given, out)
    if out is not None and not all(apart(one, out, one is last) for one in given):
        found = factor_rows(task, backend, given, None)
        assert found is not None
        copy_entries(out, found[0])
        return (out, *found[1:])
    return runs[key](given, out)  # type: ignore[no-any-return]


class FactorRun:
    """One task for layouts that belong together, of which it holds nothing but tables."""

    def __init__(self, task: Task, backend: Backend, given: list[Ragged], out: Ragged | None) -> None:
        self.task, self.kind, self.dtype = task, given[0]._kind, given[0]._view.dtype
        tables = [one.layout.host() for one in given]
        rows, columns, _ = tables[0]
        right = tables[1][1] if len(given) > 1 else np.zeros_like(rows)
        _check_shapes(task, rows, columns, tables[1][0] if len(given) > 1 else None)
        self.count, self.steps = len(rows), np.minimum(rows, columns)
        self.places = Places.dense(self.steps)  # of pivots or tau
        self.starts = self.places.first
        self.layouts = {
            part: ragged_layout.packed(*shape(rows, columns, right), ragged_layout.ALIGNMENT // ITEMSIZE[self.dtype])
            for part, shape in SHAPES[task.family, task.want].items()
        }
        if out is not None:
            check_shapes(out, allocate_beside(given[0], *self.layouts.pop(task.parts[0])))
        places = {name: table[2] for name, table in zip("ab", tables, strict=False)} | {"numbers": self.starts}
        for part, (layout, _) in self.layouts.items():
            places[_FIELDS[part]] = layout.host()[2]
        if out is not None:
            places[_FIELDS[task.parts[0]]] = out.layout.host()[2]
        if task.want in ("determinant", "logdet"):
            places |= {"f": np.arange(self.count), "x": np.arange(self.count)}
        beside = {"solve": right, "inverse": columns, "reduced": self.steps, "complete": rows}.get(task.want, right)
        some = rows * (1 if task.want == "complete" else columns) * (right if task.want == "solve" else 1) > 0
        flags = int(task.upper if task.family == "cholesky" else task.pivot)
        self.kernel = RowsKernel(
            backend, self.dtype, task.family, WANTS[task.family].index(task.want), flags,
            Sizes(rows, columns, right, beside), places, some,
        )  # fmt: skip

    def __call__(self, given: list[Ragged], out: Ragged | None) -> tuple[Array, ...]:
        found = self._results(given[0])
        if out is not None:
            found[self.task.parts[0]] = out
        address = self.kind.address

        def at(*parts: str) -> int:
            part = next((part for part in parts if part in found), None)
            if part is None:
                return 0
            return int(found[part]._view.address if isinstance(found[part], Ragged) else address(found[part]))

        right = given[1]._view.address if len(given) > 1 else 0
        pointers = (given[0]._view.address, right, at("F"), at("X", "Q"), at("PIVOTS", "TAU"), at("INFO"))
        for i in self.kernel(pointers, _NO_SCALING):
            self._by_lapack(given, found, i)
        return tuple(
            Vectors([found[part]], self.places) if part in ("PIVOTS", "TAU") else found[part]
            for part in self.task.parts
        )

    def _results(self, beside: Ragged) -> Found:
        """New memory for all parts; numbers of matrices without entries are there already."""
        like = beside.buffer
        found: Found = {
            part: allocate_beside(beside, layout, elements) for part, (layout, elements) in self.layouts.items()
        }
        task = self.task
        for part in (*task.parts, *(("INFO",) if task.family != "qr" and "INFO" not in task.parts else ())):
            if part in ("PIVOTS", "TAU"):
                found[part] = self.kind.allocate((int(self.steps.sum()),), dtype_of(task, part, self.dtype), like)
            elif part in task.numbers or part == "INFO":
                dtype = REAL[self.dtype] if part == "X" else dtype_of(task, part, self.dtype)
                found[part] = self.kind.allocate((self.count,), dtype, like)
                if not self.kernel.is_complete:
                    found[part][...] = 1 if part == "F" else 0
        return found

    def _by_lapack(self, given: list[Ragged], found: Found, i: int) -> None:
        """One matrix that is too large for the kernel."""
        A, B = (as_numpy(one[i])[None] for one in (given[0], given[-1]))
        parts = lapack.answer(self.task, A, B if len(given) > 1 else None)
        for part, value in parts.items():
            if isinstance(found.get(part), Ragged):
                place = as_numpy(found[part][i])
                place[...] = value[0].swapaxes(-1, -2) if self.task.want == "raw" else value[0]
            elif part in ("PIVOTS", "TAU"):
                start = int(self.starts[i])
                as_numpy(found[part])[start : start + len(value[0])] = value[0]
            elif part in found:
                as_numpy(found[part])[i] = value[0]


def _check_shapes(task: Task, rows: Array, columns: Array, below: Array) -> None:
    """Square matrices where the task needs them, and right-hand sides (`below`: their rows) that fit."""
    wrong = rows != columns
    if wrong.any() and task.family != "qr" and (task.family, task.want) != ("lu", "factor"):
        i = int(np.argmax(wrong))
        shape = int(rows[i]), int(columns[i])
        raise np.linalg.LinAlgError(f"a[{i}] has shape {shape}: its last two dimensions must be square")
    if below is not None and (below != rows).any():
        i = int(np.argmax(below != rows))
        raise ValueError(f"a[{i}] has {rows[i]} rows and b[{i}] {below[i]}: both need the same number")


Shape = Callable[[Array, Array, Array], tuple[Array, Array]]  # rows, columns and right-hand sides -> those of a result
_FIELDS = {"F": "f", "X": "x", "Q": "x"}  # of the kernels' items
SHAPES: dict[tuple[str, str], dict[str, Shape]] = {
    ("cholesky", "factor"): {"F": lambda m, n, k: (m, n)},
    ("cholesky", "solve"): {"X": lambda m, n, k: (n, k)},
    ("lu", "factor"): {"F": lambda m, n, k: (m, n)},
    ("lu", "solve"): {"X": lambda m, n, k: (n, k)},
    ("lu", "inverse"): {"F": lambda m, n, k: (m, n)},
    ("lu", "determinant"): {},
    ("lu", "logdet"): {},
    ("qr", "raw"): {"F": lambda m, n, k: (n, m)},
    ("qr", "r"): {"F": lambda m, n, k: (np.minimum(m, n), n)},
    ("qr", "reduced"): {"Q": lambda m, n, k: (m, np.minimum(m, n)), "F": lambda m, n, k: (np.minimum(m, n), n)},
    ("qr", "complete"): {"Q": lambda m, n, k: (m, m), "F": lambda m, n, k: (m, n)},
}
