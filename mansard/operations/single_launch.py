"""Calls that are one launch of one kernel on the operands' own memory, described for whoever launches it himself.

A framework that compiles programs (XLA) needs no plan that runs, but the kernel, the record of its arguments, and which
buffer each pointer belongs to. Calls that copy operands, consist of several steps or go to a library have no such
description.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from ..arrays.types import Array, Kind
from ..codegen.geometry import Kernel
from ..kernels.common.batches import POINTERS
from ..plan.plan import Plan
from ..plan.route import Library
from . import run as call
from .factor.kernel import KernelRun
from .factor.plan import plan_factor
from .factor.task import Found, Task, dtype_of

Result = tuple[tuple[int, ...], str]  # shape and dtype
LIBRARY: Final = "library"  # the array library answers


class SingleLaunch(NamedTuple):
    """One launch that answers a call. Buffers are numbered: operands first, then results."""

    backend: str
    kernel: Kernel
    scalars: tuple[float, ...]
    places: tuple[int, ...]  # for each pointer of the kernel, its buffer; -1: null
    results: tuple[Result, ...]  # what the kernel writes: dense, row after row

    def record(self) -> tuple[int, ...]:
        """The kernel's arguments as 64-bit words, addresses and scratch memory left zero."""
        packing = self.kernel.source.packing
        packed = packing.pack(*(0,) * len(self.places), 0, 0, *self.kernel.fixed, *self.scalars)
        return tuple(int.from_bytes(packed[i : i + 8], "little", signed=True) for i in range(0, len(packed), 8))


def of_product(plan: Plan, operands: int, shape: tuple[int, ...]) -> SingleLaunch | Literal["library"] | None:
    """The launch of a planned product or triangular system, of one operand or two; None if its calls are more."""
    if not plan.is_direct or plan.kernel is None:
        return LIBRARY if isinstance(plan.choice.route, Library) else None
    scalars = call.scalars(plan.problem, 1.0, 0.0)
    places = (0, operands - 1, operands)
    return SingleLaunch(plan.backend.name, plan.kernel, scalars, places, ((shape, plan.problem.dtype),))


def of_factorization(task: Task, kind: Kind, A: Array, B: Array, backend: str | None) -> SingleLaunch | None:
    """The launch of a factorization, whose results are the parts of its task and `info`; None if it is not one launch.
    A and B are stacks with the same leading dimensions."""
    plan = plan_factor(task, kind, A, B, Found(), backend)
    run = plan.kernel
    if run is None or plan.run is not run or run.kernel is None or run.addressed or any(run.copies.values()):
        return None
    operands = ["A"] if B is None else ["A", "B"]
    written = parts_written(task)
    buffers = [*operands, *written]
    places = tuple(buffers.index(name) if name in buffers else -1 for name in POINTERS[run.task.family])
    return SingleLaunch(run.backend.name, run.kernel, (), places, tuple(_result(run, part) for part in written))


def parts_written(task: Task) -> tuple[str, ...]:
    """Parts that a kernel writes: those of the task, and `info`."""
    return tuple(dict.fromkeys((*task.parts, *(("INFO",) if "INFO" in POINTERS[task.family] else ()))))


def _result(run: KernelRun, part: str) -> Result:
    return (*run.lead, *run.sizes.shape(run.task, part)), dtype_of(run.task, part, run.dtype)
