"""Unblocked panels as kernels: Dong's "non-blocked" and "classic" algorithms (figures 4.1 to 4.3), a launch per column.

`columns.cuh` has a step of LU, Cholesky and QR for a batch. `nonblocked` runs all columns of the matrices, `classic`
only those of panels; what lies between panels is the library's, as in `mansard/operations/factor/blocked.py`. Tests run
the kernels in the emulator.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from mansard.arrays.kinds import kind_of
from mansard.codegen.geometry import Geometry, Kernel
from mansard.codegen.instantiate import Field
from mansard.operations.factor.blocked import Blocked, Steps
from mansard.operations.factor.task import Found, Task, zeros

from ..kernels import ITEM, Text, launched, pointers

HEADER = Path(__file__).with_name("columns.cuh")
PANEL = 32  # columns of a panel
LANES_Y = 8  # warps of a block
NUMBERS = ("M", "N", "J", "f_stack", "f_row", "f_col", "v_stack")
ENTRIES = {"lu": "lu_column", "cholesky": "cholesky_column", "qr": "qr_column"}
CLASSIC = Steps((PANEL,), swap="rows", by_columns=True)


def text(entry: str, dtype: str) -> Text:
    vector = Field("V", f"{pointers(dtype, '', 'V')[0].cpp if entry == 'qr_column' else 'int*'}", "pointer")
    arrays = (*pointers(dtype, "", "F"), vector, Field("I", "int*", "pointer"))
    threads = 32 * LANES_Y
    constants = {"LANES_Y": LANES_Y, "SHARED_BYTES": threads * (ITEM[dtype] + 4)}
    return Text(HEADER, entry, dtype, constants, arrays, NUMBERS, threads)


class Columns:
    """Launches of single columns on the stacks of one array library; every launch is prepared once."""

    def __init__(self, backend: Any, stream: Any = lambda: 0) -> None:
        self.backend, self.stream = backend, stream
        self._prepared: dict[tuple[Any, ...], Any] = {}

    def launch(self, entry: str, F: Any, vector: Any, info: Any, step: int) -> None:
        """One step on F (count, m, n); `vector` takes pivots or tau, or has the pivots of an exchange."""
        dtype, item = F.dtype.name, F.dtype.itemsize
        fixed = (*F.shape[-2:], step, *(stride // item for stride in F.strides), vector.strides[0] // vector.itemsize)
        key = (entry, dtype, F.shape[0], fixed)
        if key not in self._prepared:
            made = text(entry, dtype)
            geometry = Geometry((F.shape[0], 1, 1), made.threads, made.constants["SHARED_BYTES"])
            kernel = Kernel(made.source(self.backend.name), geometry, fixed)
            self._prepared[key] = self.backend.prepare(kernel)
        launched(self._prepared[key], (F, vector, info), self.stream())

    def factor(self, task: Task, F: Any, A: Any) -> Found:
        """All columns of a panel, one after the other: the leaf of a blocked factorization."""
        if A is not F:
            F[...] = A
        kind, width = kind_of(F, "F"), min(F.shape[-2:])
        dtype = F.dtype.name if task.family == "qr" else "int32"
        vector = zeros(kind, (*F.shape[:-2], width), dtype, F)
        info = zeros(kind, F.shape[:-2], "int32", F)
        for step in range(width):
            self.launch(ENTRIES[task.family], F, vector, info, step)
        return {"lu": {"PIVOTS": vector, "INFO": info}, "cholesky": {"INFO": info}, "qr": {"TAU": vector}}[task.family]

    def exchange(self, pivots: Any, place: Any) -> bool:
        """Rows of `place` one after the other by pivots."""
        info = pivots  # not touched
        self.launch("exchange_rows", place, pivots, info, pivots.shape[-1])
        return True


def classic(columns: Columns, A: Any, others: str | None = None) -> Blocked:
    """A blocked factorization whose panels are columns one after the other, and whose exchanges are, too. `others` is
    the backend of products and triangular solves."""
    made = Blocked(kind_of(A, "A"), others, columns.factor, _takes, columns.exchange, CLASSIC)
    made.swaps.how = "kernel"  # one after the other, but by the kernel
    return made


def _takes(task: Task, panel: Any) -> bool:
    return task.want != "panel"


def run(operation: str, how: str, A: Any, columns: Columns, others: str | None = None) -> Found:
    """The factorization of a stack by `how`, in place of A."""
    if how == "nonblocked":
        want = {"qr": "raw"}.get(operation, "factor")
        return {"F": A, **columns.factor(Task(operation, want), A, A)}
    blocked = classic(columns, A, others)
    if operation == "lu":
        pivots, info = blocked.lu(A, None)
        return {"F": A, "PIVOTS": pivots, "INFO": info}
    if operation == "cholesky":
        return {"INFO": blocked.cholesky(A, None), "F": A}
    return {"F": A, "TAU": blocked.qr(A)}


def flops(operation: str, n: int) -> float:
    """Operations of a factorization, as LAPACK counts them."""
    return {"lu": 2 / 3, "cholesky": 1 / 3, "qr": 4 / 3}[operation] * math.pow(n, 3)
