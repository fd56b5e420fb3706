"""Values and eigenvectors of a class without those of its padding: one launch writes them to their places in the batch.

The kernel (`ragged_factor`, kernel_unpad.cuh) finds which values are the padding's; a table says where the others go.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....arrays.types import Array
from ....backends.base import Backend, Launch
from ....kernels.factor.ragged_factor import defaults, emit, spec, work
from ...ragged_copy import Copies
from .task import Task


class Targets(NamedTuple):
    """Where results begin in the arrays of the batch, one number per matrix."""

    orders: Array
    values: Array
    vectors: Array  # eigenvectors; zeros where there are none


class Unpad(NamedTuple):
    """One launch, and where its items begin in the table."""

    launch: Launch
    first: int

    def __call__(self, found: tuple[int, int, int], results: tuple[int, int, int], table: int, stream: int) -> None:
        """`found`: addresses of a stack's values, eigenvectors (or 0) and info; `results`: those of the batch."""
        self.launch((*found, *results, table + self.first), (), stream)


def padding_of(task: Task) -> int:
    """How the values of the padding are known, as the kernel numbers it."""
    vectors = "vectors" if "Z" in task.parts else "nearest"
    return emit.PADDING.index(vectors if task.is_hermitian else "last")


def unpad(copies: Copies, backend: Backend, task: Task, members: Array, bound: int, targets: Targets) -> Unpad:
    """The launch for a stack of these matrices, which have `bound` values; its items join the table of the copies."""
    problem = spec.problem(copies.dtype, len(members), method="unpad")
    config = defaults.default(problem, backend.device)
    assert config is not None
    launch = backend.prepare(emit.kernel(problem, config, backend.device, (bound, padding_of(task))))
    return Unpad(launch, copies.add_items(_items(members, targets)))


def _items(members: Array, targets: Targets) -> Array:
    """UnpadItem of every matrix."""
    table = np.empty((len(members), work.UNPAD_WORDS), np.int64)
    table[:, 0], table[:, 1] = targets.values[members], targets.vectors[members]
    halves = table.view(np.int32)
    halves[:, 4], halves[:, 5] = targets.orders[members], members
    return table
