"""Two-sided factorizations of ragged batches, one chain of kernels per size class (`ragged_classes`).

The matrices of a class are gathered into a stack of its largest size and padded with zeros,

    [A 0]   [Z 0] [W 0] [Z 0]^H         [A 0]   [U 0] [S 0] [V 0]^H
    [0 0] = [0 I] [0 0] [0 I]     and   [0 0] = [0 I] [0 0] [0 I]

Reflections and rotations of the padding are identities, so that A's part is what it would be alone, and nothing is
scaled by what the padding holds. Singular values of the padding are zeros and come last; of equal values the first
column comes first, which is A's. Eigenvalues of the padding stand between negative and positive ones and are taken out:
by their eigenvectors, which lie in the rows of the padding, or, without vectors, as the values nearest to zero.

Jacobi's method completes U with the unit vectors farthest from its columns, which would be those of the padding where A
is deficient: singular vectors of so small matrices are computed by a kernel for each shape.

On CPUs LAPACK answers, matrix by matrix: no kernel is compiled for sizes that few matrices have.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ....arrays.kinds import KINDS
from ....arrays.types import Array, Matrices
from ....backends.base import Backend
from ....backends.select import select
from ....plan import pin
from ....plan.problem import ITEMSIZE, REAL
from ... import ragged_layout
from ...ragged import Ragged, allocate_beside
from ...ragged_classes import SizeClass, divide, shapes_apart
from ...ragged_indices import Indices
from ...ragged_kernel import Runs, held_by
from ...ragged_lists import ragged_of
from ...ragged_stacks import Compute, Found, Given, StackedRun, Wanted
from ..plan import as_numpy
from ..task import zeros
from . import library
from .chain import methods
from .plan import planned
from .task import Sizes, Task

_RUNS: Runs = WeakKeyDictionary()
_MATRICES = ("Z", "U", "VH")


def two_sided_ragged(task: Task, backend: str | None, A: Ragged, out: None) -> tuple[Matrices, ...] | None:
    """The parts of the task's result; None where sizes are answered one after the other."""
    chosen = select(A._view.device, backend)
    if chosen.name == "cpu" and backend is None and not pin.pins():
        return _by_lapack(task, A)
    if chosen.name not in ("cuda", "emulated") or pin.pins() or "D" in task.parts:
        return None
    runs = held_by(_RUNS, A.layout)
    key = (task, backend, chosen.name, A._kind, A._view.dtype, A._view.device)
    if key not in runs:
        runs[key] = _ClassRun(task, backend, chosen, A) if _is_usable(task, A) else None
    return None if runs[key] is None else runs[key](A)


def _by_lapack(task: Task, A: Ragged) -> tuple[Matrices, ...] | None:
    """The parts by LAPACK; None where a matrix is empty, not finite or does not converge."""
    one, buffer, kind = library.each(task), as_numpy(A.buffer), A._kind
    rows, columns, _ = A.layout.host()
    if one is None or not len(rows) or not min(rows.min(), columns.min()):
        return None
    if task.is_hermitian and (rows != columns).any():
        return None
    if not np.isfinite(buffer).all() and not np.isfinite(buffer[Indices.of(A.layout).place]).all():  # or gaps are not
        return None
    shapes, places = A.layout.pieces()
    try:
        found = [one(task, buffer[place].reshape(shape)) for place, shape in zip(places, shapes, strict=True)]
    except np.linalg.LinAlgError:
        return None
    parts = dict(zip(task.parts, zip(*found, strict=True), strict=False))
    made: Found = {part: ragged_of(KINDS["numpy"], list(parts[part]), part) for part in parts if part in _MATRICES}
    made = {part: Ragged._of(kind, kind.upload(one.buffer, A.buffer), one.layout) for part, one in made.items()}
    made["W"] = [kind.upload(one, A.buffer) for one in parts["W"]]
    return tuple(made[part] if part in made else zeros(kind, (len(rows),), "int32", A.buffer) for part in task.parts)


def _is_usable(task: Task, A: Ragged) -> bool:
    rows, columns, _ = A.layout.host()
    is_square = not (rows != columns).any()
    return bool(len(rows)) and (is_square or not (task.is_hermitian or task.full))


class _ClassRun:
    """One task for one layout, of which it holds nothing but tables."""

    def __init__(self, task: Task, name: str | None, backend: Backend, A: Ragged) -> None:
        self.task, self.name, self.kind, self.dtype = task, name, A._kind, A._view.dtype
        table = A.layout.host()
        rows, columns = (np.asarray(one) for one in table[:2])
        self.orders, self.count = np.minimum(rows, columns), len(rows)
        unit = ragged_layout.ALIGNMENT // ITEMSIZE[self.dtype]
        shapes = {"Z": (columns, columns), "U": (rows, self.orders), "VH": (self.orders, columns)}
        self.layouts = {part: ragged_layout.packed(*shapes[part], unit) for part in task.parts if part in _MATRICES}
        classes = self._classes(np.stack([rows, columns, 0 * rows], 1))
        wanted = {
            part: Wanted(layout.host(), partial(self._stack_shape, part)) for part, (layout, _) in self.layouts.items()
        }
        compute = Compute(self._finish, lambda stacks: planned(task, self.kind, stacks[0], name), self._launch)
        self.run = StackedRun(
            self.kind, backend, self.dtype, A._view.device, compute, classes, [Given(table)], wanted
        )  # fmt: skip
        self.padding = [
            _Padding(task.is_hermitian, self.orders[one.members], min(one.stacks[0][1][1:])) for one in self.run.pieces
        ]
        order = np.concatenate([*self.run.members, np.flatnonzero(self.orders == 0)])
        self.back = Indices(np.argsort(order), None, None)

    def _classes(self, sizes: Array) -> list[SizeClass]:
        """Size classes of matrices that have entries."""
        some, tiny = np.flatnonzero(self.orders > 0), np.zeros(len(self.orders), bool)
        if "U" in self.task.parts:
            for order in np.unique(self.orders[some]).tolist():
                if methods(self.task, self.dtype, order, False)[0].driver == "jacobi":
                    tiny |= self.orders == order
        tiny = tiny[some]
        found = divide(sizes[some[~tiny]], ITEMSIZE[self.dtype]) if not tiny.all() else []
        apart = shapes_apart(sizes[some[tiny]]) if tiny.any() else []
        return [
            *(one._replace(members=some[~tiny][one.members]) for one in found),
            *(one._replace(members=some[tiny][one.members]) for one in apart),
        ]

    def _stack_shape(self, part: str, bounds: tuple[int, int, int]) -> tuple[int, int]:
        rows, columns = Sizes(*bounds[:2]).shape(self.task, part)
        return rows, columns

    def _launch(self, stacks: list[Array], stream: int, held: list[Any]) -> Found:
        """The parts of a class, computed on this stream where one chain of launches does it."""
        plan = planned(self.task, self.kind, stacks[0], self.name)
        if plan.kernels is not None:
            found = plan.kernels(stacks[0], stream, held)
        else:
            found = plan.run(stacks[0])
        held.append(dict(found))
        return found

    def _finish(self, found: Found, number: int, A: Ragged) -> Found:
        """The parts of a class without those of the padding."""
        return self.padding[number].taken_out(A, dict(found))

    def __call__(self, A: Ragged) -> tuple[Matrices, ...]:
        results = {part: allocate_beside(A, *layout) for part, layout in self.layouts.items()}
        found = self.run([A], results, A)
        return tuple(
            results[part] if part in results else self._rows(A, found) if part == "W" else self._info(A, found)
            for part in self.task.parts
        )

    def _rows(self, A: Ragged, found: list[Found]) -> list[Array]:
        """Values of every matrix, in the order of the batch: parts of the arrays of the classes."""
        rows: list[Array] = [None] * self.count
        for members, one in zip(self.run.members, found, strict=True):
            flat, pitch, first = one["W"].reshape(-1), one["W"].shape[1], 0
            for i, order in zip(members.tolist(), self.orders[members].tolist(), strict=True):
                rows[i] = flat[first : first + order]
                first += pitch
        for i in np.flatnonzero(self.orders == 0).tolist():
            rows[i] = self.kind.allocate((0,), REAL[self.dtype], A.buffer)
        return rows

    def _info(self, A: Ragged, found: list[Found]) -> Array:
        """One number per matrix, in the order of the batch."""
        every, first = zeros(self.kind, (self.count,), "int32", A.buffer), 0
        for one in found:
            every[first : first + len(one["INFO"])] = one["INFO"]
            first += len(one["INFO"])
        return every[self.back.beside(A)]


class _Padding:
    """What the stack of a class has beyond its matrices: rows and columns from their orders on."""

    def __init__(self, is_hermitian: bool, orders: Array, bound: int) -> None:
        self.is_hermitian, self.bound, self.lowest = is_hermitian, bound, int(orders.min())
        self.orders = Indices(orders[:, None], None, None)
        self.outside = Indices(np.arange(self.lowest, bound)[None, :, None] >= orders[:, None, None], None, None)

    def taken_out(self, A: Ragged, found: Found) -> Found:
        """Parts whose first values and vectors are those of the matrices, and their own `info`."""
        if self.lowest == self.bound:
            return found
        kind, orders = A._kind, self.orders.beside(A)
        info = found["INFO"]
        beyond = info - kind.astype(self.bound - orders[:, 0], "int32")
        found["INFO"] = kind.module.where(info > orders[:, 0], beyond, info)
        if "Z" in found:
            index = self._by_vectors(A, found["Z"])
            found["Z"] = kind.take_along(found["Z"], index[:, None, :], -1)
            found["W"] = kind.take_along(found["W"], index, -1)
        elif self.is_hermitian:
            found["W"] = self._by_values(A, found["W"])
        return found

    def _by_vectors(self, A: Ragged, Z: Array) -> Array:
        """Places of the eigenvectors of the matrices, in their order, then of those in the rows of the padding."""
        kind, module, orders = A._kind, A._kind.module, self.orders.beside(A)
        weight = (module.abs(Z[:, self.lowest :, :]) * self.outside.beside(A)).sum(1)
        is_padding = weight > 0.5  # 0 or 1: never for matrices that are not finite
        before, column = is_padding.cumsum(-1), kind.arange(self.bound, Z)[None, :]
        place = module.where(is_padding, orders + before - 1, column - before)
        index = 0 * place
        kind.put_along(index, place.clip(0, self.bound - 1), index + column, -1)
        return index

    def _by_values(self, A: Ragged, W: Array) -> Array:
        """Values without as many of them, nearest to zero, as the padding has. Of ascending values these are a window,
        which moves on as long as the value that it leaves is farther from zero than the one it takes."""
        kind, module, orders = A._kind, A._kind.module, self.orders.beside(A)
        column = kind.arange(self.bound, W)[None, :]
        beyond = (column + (self.bound - orders)).clip(0, self.bound - 1)
        with np.errstate(all="ignore"):
            moves = (W + kind.take_along(W, beyond, -1) < 0) & (column < orders)
        index = module.where(column < moves.sum(-1)[:, None], column, beyond)
        return kind.take_along(W, index, -1)
