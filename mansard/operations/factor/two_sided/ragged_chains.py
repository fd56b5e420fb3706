"""Two-sided factorizations of ragged batches on GPUs: a chain of launches per size class, the classes side by side.

The chain of a class gathers its matrices into a padded stack, factors the stack, and writes what belongs to the
matrices to its places in the batch. Every chain has a stream of its own: most of its launches wait for few lanes.
Chains with a thread per matrix are started first and on urgent streams: they are the longest and take little of the
GPU, which the blocks of the others then fill.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ....arrays.types import Array, Matrices
from ....backends.base import Backend
from ....backends.beside import several
from ....kernels.factor import divide as by_block
from ....kernels.factor import sweeps
from ....plan.problem import ITEMSIZE, REAL
from ... import ragged_layout
from ... import run as call
from ...ragged import Ragged, allocate_beside
from ...ragged_classes import SizeClass, divide, shapes_apart
from ...ragged_copy import Block, Copies, Copy, is_capturing
from ...ragged_stacks import Given, chunks
from ...ragged_vectors import Places, Vectors
from ..task import zeros
from .chain import methods
from .plan import TwoSidedPlan, planned
from .routes import too_few
from .task import PADDED, Sizes, Task
from .unpadded import Targets, Unpad, unpad

MATRICES = ("Z", "U", "VH")


class _Piece(NamedTuple):
    """A class, or a part of one that is too large."""

    task: Task  # with the driver of this class
    shape: tuple[int, int, int]  # of its stack
    gather: Copy
    scatters: dict[str, Copy]
    unpad: Unpad


class ClassChains:
    """One task for one layout, of which it holds nothing but tables."""

    def __init__(self, task: Task, name: str | None, backend: Backend, A: Ragged) -> None:
        self.task, self.name, self.backend = task, name, backend
        self.kind, self.dtype, table = A._kind, A._view.dtype, A.layout.host()
        rows, columns = (np.asarray(one) for one in table[:2])
        self.orders, self.count = np.minimum(rows, columns), len(rows)
        unit = ragged_layout.ALIGNMENT // ITEMSIZE[self.dtype]
        shapes = {"Z": (columns, columns), "U": (rows, self.orders), "VH": (self.orders, columns)}
        self.layouts = {part: ragged_layout.packed(*shapes[part], unit) for part in task.parts if part in MATRICES}
        self.places, self.stream = Places.dense(self.orders), self.kind.stream_of(A._view.device)
        self.copies = Copies(self.kind, backend, self.dtype)
        classes = self._classes(np.stack([rows, columns, 0 * rows], 1))
        tasks = {one.bounds: self._task_of(one, classes) for one in classes}
        self.chunks = [
            [self._piece(tasks[one.bounds], one, table) for one in some]
            for some in chunks(classes, [Given(table)], ITEMSIZE[self.dtype])
        ]
        self._is_prepared = False
        self._captured: list[Any] = []  # memory that graphs read and write

    def _classes(self, sizes: Array) -> list[SizeClass]:
        """Size classes of matrices that have entries; without padding where a method does not bear it."""
        apart, some = np.zeros(len(self.orders), bool), self.orders > 0
        for order in np.unique(self.orders[some]).tolist():
            completes = "U" in self.task.parts and methods(self.task, self.dtype, order, False)[0].driver == "jacobi"
            if completes or order > sweeps.spec.WIDEST:  # a library mixes null vectors of A with the padding's
                apart |= self.orders == order
        padded, alone = np.flatnonzero(some & ~apart), np.flatnonzero(some & apart)
        found = divide(sizes[padded], ITEMSIZE[self.dtype]) if len(padded) else []
        others = shapes_apart(sizes[alone]) if len(alone) else []
        return [
            *(one._replace(members=padded[one.members]) for one in found),
            *(one._replace(members=alone[one.members]) for one in others),
        ]

    def _task_of(self, one: SizeClass, classes: list[SizeClass]) -> Task:
        """The task with the driver that suits a class beside others. A thread per matrix (`qr`) leaves the GPU to the
        other classes: it is chosen where all of them together, in matrices of this order, are as much work as a batch
        for which it is chosen; work per matrix grows as the square of the order. It also spares padded matrices the
        library."""
        task, order = self.task, _order(one)
        if task.driver != "auto" or methods(task, self.dtype, order, False)[0].driver == "jacobi":
            return task
        alike = sum(len(other.members) * (_order(other) / order) ** 2 for other in classes)
        fewest = by_block.defaults.fewest_of_sweeps(task.want, self.dtype, order, self.backend.device)
        is_librarys = order <= sweeps.spec.WIDEST and too_few(task, order, len(one.members)) is not None
        if alike >= fewest or is_librarys:
            return task._replace(driver="qr")
        return task._replace(driver=PADDED) if "U" in task.parts else task

    def _piece(self, task: Task, one: SizeClass, table: tuple[Array, Array, Array]) -> _Piece:
        members, (height, width, _) = one.members, one.bounds
        rows, columns, source = (np.asarray(of_all)[members] for of_all in table)
        number = np.arange(len(members))
        gather = self.copies.add(
            Block(source, number * height * width, rows, columns, np.full_like(rows, height), width, columns, 1)
        )
        vectors = self.layouts["Z"][0].host()[2] if "Z" in self.layouts else np.zeros(self.count, np.int64)
        targets = Targets(self.orders, self.places.first, vectors)
        return _Piece(
            task, (len(members), height, width), gather, self._scatters(one),
            unpad(self.copies, self.backend, task, members, _order(one), targets),
        )  # fmt: skip

    def _scatters(self, one: SizeClass) -> dict[str, Copy]:
        """Copies of singular vectors from their stacks."""
        made: dict[str, Copy] = {}
        for part in ("U", "VH"):
            if part in self.layouts:
                rows, columns, target = (table[one.members] for table in self.layouts[part][0].host())
                height, width = Sizes(*one.bounds[:2]).shape(self.task, part)
                source = np.arange(len(one.members)) * height * width
                made[part] = self.copies.add(Block(source, target, rows, columns, rows, columns, width, 1))
        return made

    def __call__(self, A: Ragged) -> tuple[Matrices, ...]:
        kind, like, stream = self.kind, A.buffer, self.stream()
        table = self.copies.table(like, stream)
        made: dict[str, Any] = {part: allocate_beside(A, *layout) for part, layout in self.layouts.items()}
        values = kind.allocate((self.places.total,), REAL[self.dtype], like)
        made |= {"W": Vectors([values], self.places), "INFO": zeros(kind, (self.count,), "int32", like)}
        at = {part: made[part]._view.address for part in self.layouts}
        at |= {"W": kind.address(values), "INFO": kind.address(made["INFO"])}
        for pieces in self.chunks:
            held: list[Any] = [self._stack(piece, like) for piece in pieces]
            plans = self._plans(pieces, held)
            first = sorted(range(len(pieces)), key=lambda i: not _is_thread_each(plans[i]))  # stable
            urgent = sum(map(_is_thread_each, plans))
            with several(self.backend, stream, len(pieces), are_chains=True, urgent=urgent) as streams:
                for k, i in enumerate(first):
                    beside = stream if plans[i].kernels is None else streams[k % len(streams)]
                    self._run(pieces[i], plans[i], held[i], held, A._view.address, at, table, beside)
            if is_capturing(self.backend, stream):
                self._captured.append((held, made))
        self._is_prepared = True
        return tuple(made[part] for part in self.task.parts)

    def _stack(self, piece: _Piece, like: Array) -> Array:
        return self.kind.empty((1, prod(piece.shape)), self.dtype, like).reshape(piece.shape)

    def _plans(self, pieces: list[_Piece], stacks: list[Array]) -> list[TwoSidedPlan]:
        """Plans of the chains, the first time by several threads: kernels compile."""
        makers = [
            partial(planned, piece.task, self.kind, stack, self.name)
            for piece, stack in zip(pieces, stacks, strict=True)
        ]
        return [make() for make in makers] if self._is_prepared else call.together(makers)

    def _run(
        self, piece: _Piece, plan: TwoSidedPlan, stack: Array, held: list[Any], source: int, at: dict[str, int],
        table: int, stream: int,
    ) -> None:  # fmt: skip
        """One chain. Memory that it must not lose before all streams have met is appended to `held`."""
        address = self.kind.address
        piece.gather(source, address(stack), table, stream)
        found = plan.run(stack) if plan.kernels is None else plan.kernels(stack, stream, held)
        parts = {part: self.kind.plain(one) for part, one in found.items()}
        held.append(parts)
        for part, scatter in piece.scatters.items():
            scatter(address(parts[part]), at[part], table, stream)
        whole = (address(parts["W"]), address(parts["Z"]) if "Z" in parts else 0, address(parts["INFO"]))
        piece.unpad(whole, (at["W"], at.get("Z", 0), at["INFO"]), table, stream)


def _is_thread_each(plan: TwoSidedPlan) -> bool:
    """Whether the plan iterates by a thread per matrix from the first launch after the reduction on."""
    if plan.kernels is None:
        return False
    operations = [step.problem.operation for step in plan.kernels.chains[0].steps]
    return operations[1:2] == ["sweeps"]


def _order(one: SizeClass) -> int:
    """Rows of the smaller side of a class's stack, which are the values of a matrix."""
    return min(one.bounds[:2])
