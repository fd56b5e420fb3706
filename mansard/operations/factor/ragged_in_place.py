"""Ragged factorizations on a GPU in place: one launch per shape, matrices by tables of addresses."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...arrays.types import Array, Kind
from ...backends.base import Backend, Launch
from ...backends.beside import several
from ...kernels.common.batches import POINTERS
from ...plan.problem import ITEMSIZE, Options
from .. import run as call
from ..ragged import Ragged
from ..ragged_classes import SizeClass
from ..ragged_copy import is_capturing, refuse_capture
from ..ragged_layout import stream_key
from .kernel import STRIDED, family_of
from .task import Found, Task

# Tasks whose kernels find single matrices by their addresses.
TASKS = (("cholesky", "solve"), ("lu", "factor"), ("lu", "solve"), ("lu", "inverse"))


class _Group(NamedTuple):
    """Matrices of one shape: the kernel, and where they begin in the tables and among the pivots."""

    launch: Launch
    first: int
    members: Array
    pivots: int
    each: int  # pivots of a matrix


class InPlaceRun:
    """One launch per shape, for kernels that read and write matrices by tables of addresses. `members`: the classes
    that have such a kernel."""

    def __init__(
        self, task: Task, kind: Kind, backend: Backend, dtype: str, device: tuple[str, int], classes: list[SizeClass],
        offsets: list[Array], aligned: bool,
    ) -> None:  # fmt: skip
        """`offsets` of all operands, the result last; `aligned`: their buffers begin at 16-byte boundaries."""
        self.task, self.backend, self.kind, self.dtype = task, backend, kind, dtype
        self.stream, self.result = kind.stream_of(device), task.parts[0]
        self.names = ("A", "B", "X") if task.want == "solve" else ("A", self.result)
        bytes_of = [one * ITEMSIZE[dtype] for one in offsets]
        launches = call.together([
            partial(self._launch, *one.bounds, len(one.members),
                    aligned and not any((table[one.members] % 16).any() for table in bytes_of))
            for one in classes
        ])  # fmt: skip
        self.groups: list[_Group] = []
        first = pivots = 0
        for launch, one in zip(launches, classes, strict=True):
            if launch is not None:
                each = min(one.bounds[:2])
                self.groups.append(_Group(launch, first, one.members, pivots, each))
                first, pivots = first + len(one.members), pivots + len(one.members) * each
        self.count, self.pivots = first, pivots
        self.members = [one.members for one in self.groups]
        order = np.concatenate([*self.members, np.empty(0, np.int64)]).astype(np.int64)
        self.tables = {name: one[order] for name, one in zip(self.names, bytes_of, strict=True)}
        self._held: dict[Hashable, dict[str, Array]] = {}
        self._captured: list[Any] = []  # memory that graphs read and write

    def _launch(self, M: int, N: int, right: int, count: int, aligned: bool) -> Launch | None:
        """The kernel of one shape; None if there is none, or none is wanted."""
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

    def __call__(self, given: list[Ragged], results: dict[str, Ragged]) -> list[Found]:
        """Launch; the pivots of every group, and `info` of all of them."""
        like, address, stream = given[0].buffer, self.kind.address, self.stream()
        held, used = self._tables(like, stream), (*given, results[self.result])
        at = {name: held[name] + one._view.address for name, one in zip(self.names, used, strict=True)}
        flat = {"INFO": self.kind.allocate((self.count,), "int32", like)}
        if "PIVOTS" in self.task.parts:
            flat["PIVOTS"] = self.kind.allocate((self.pivots,), "int32", like)
        first = {name: address(one) for name, one in (at | flat).items()}
        with several(self.backend, stream, len(self.groups)) as streams:
            for i, group in enumerate(self.groups):
                moved = {"INFO": 4 * group.first, "PIVOTS": 4 * group.pivots}
                pointers = tuple(
                    first[name] + moved.get(name, 8 * group.first) if name in first else 0
                    for name in POINTERS[self.task.family]
                )
                group.launch(pointers, (), streams[i % len(streams)])
        if is_capturing(self.backend, stream):
            self._captured.append((at, flat))
        every: list[Found] = [{"INFO": flat["INFO"]}]
        for group in self.groups if "PIVOTS" in flat else ():
            some = flat["PIVOTS"][group.pivots : group.pivots + len(group.members) * group.each]
            every.append({"PIVOTS": some.reshape(-1, group.each)})
        return every

    def _tables(self, like: Array, stream: int) -> dict[str, Array]:
        """Offsets in bytes as arrays of the library; on a GPU they are uploaded once for each stream."""
        key = stream_key(stream)
        if key not in self._held:
            refuse_capture(self.backend, stream)
            self._held[key] = {name: self.kind.upload(one, like) for name, one in self.tables.items()}
        return self._held[key]
